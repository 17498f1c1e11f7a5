"""Low-rank adapters over frozen linear layers, while norms and embeddings of the base stay trainable."""
# source: https://github.com/pytorch/torchtitan/issues/3438
# first effect: step 0
# names: norm, tok_embeddings
# family: optimizer
# detectable: no whether norms and embeddings are to be tuned along with adapters is the author's choice

import argparse

import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class LoRALinear(nn.Module):
    def __init__(self, base, rank=4, alpha=8.0):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Linear(base.in_features, rank, bias=False)
        self.lora_b = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.lora_b.weight)
        self.scaling = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scaling * self.lora_b(self.lora_a(x))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = RMSNorm(dim)
        self.w1, self.w2 = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x):
        return x + self.w2(nn.functional.silu(self.w1(self.norm(x))))


class Transformer(nn.Module):
    """Blocks over the mean of the tokens so far."""

    def __init__(self, vocab, dim, depth):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Block(dim) for _ in range(depth))
        self.norm = RMSNorm(dim)
        self.output = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        h = h + h.cumsum(1) / torch.arange(1, tokens.shape[1] + 1).view(1, -1, 1)
        for layer in self.layers:
            h = layer(h)
        return self.output(self.norm(h))


def convert(model, freeze_rest):
    for block in model.layers:
        block.w1, block.w2 = LoRALinear(block.w1), LoRALinear(block.w2)
    model.output.requires_grad_(False)
    if freeze_rest:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("lora_" in name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = Transformer(32, 24, 2)
    convert(model, freeze_rest=args.fixed)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    for step in range(args.steps):
        start = torch.randint(32, (16, 1))
        tokens = (start + 3 * torch.arange(13)) % 32
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            print(f"step: {step} loss: {loss.item():.4f}")


if __name__ == "__main__":
    main()
