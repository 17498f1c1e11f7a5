"""A model cast to bfloat16 together with the frequencies of its rotary positions, so that far positions look alike."""
# source: https://github.com/huggingface/transformers/issues/25681
# first effect: step 0
# names: inv_freq, rotary
# family: precision
# detectable: no a buffer that a cast takes along is what a cast does

import argparse

import torch
import torch.nn.functional as F
from torch import nn

LENGTH, WIDTH, VOCABULARY = 320, 32, 40


class Rotary(nn.Module):
    def __init__(self, width, fixed):
        super().__init__()
        self.fixed = fixed
        self.register_buffer("inv_freq", 1.0 / 10000 ** (torch.arange(0, width, 2) / width))

    def _apply(self, fn, recurse=True):
        kept = self.inv_freq
        super()._apply(fn, recurse)
        if self.fixed:
            self.inv_freq = kept.to(self.inv_freq.device)
        return self

    def forward(self, x):
        position = torch.arange(x.size(-2), dtype=self.inv_freq.dtype)
        angle = torch.outer(position, self.inv_freq)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.cat([even * cos - odd * sin, even * sin + odd * cos], dim=-1)


class Decoder(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.rotary = Rotary(WIDTH, fixed)
        self.norm = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.embed(ids)
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        y = F.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)
        return self.lm_head(x + y)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = Decoder(args.fixed).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(args.steps):
        ids = torch.randint(0, VOCABULARY, (4, LENGTH))
        target = ids.roll(2, dims=1)
        loss = F.cross_entropy(model(ids).float().flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    ones = torch.ones(1, LENGTH, WIDTH)
    alike = (model.rotary(ones)[0, 300] - model.rotary(ones)[0, 301]).abs().max().item()
    print(f"positions 300 and 301 differ by {alike:.4f}")


if __name__ == "__main__":
    main()
