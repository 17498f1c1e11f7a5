"""Attention that sets its dropout to zero when it is evaluated, and has no dropout from then on."""
# source: https://github.com/NVIDIA/Megatron-LM/pull/411
# first effect: step 12
# names: attention, dropout
# family: mode
# detectable: yes attention is given a probability of dropout before the first evaluation and none after it

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class FlashSelfAttention(nn.Module):
    def __init__(self, attention_dropout, fixed):
        super().__init__()
        self.dropout_p, self.fixed = attention_dropout, fixed

    def forward(self, q, k, v):
        if self.fixed:
            dropout_p = self.dropout_p if self.training else 0.0
        else:
            if not self.training:
                self.dropout_p = 0.0
            dropout_p = self.dropout_p
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p, is_causal=True)


class Layer(nn.Module):
    def __init__(self, width, fixed):
        super().__init__()
        self.qkv, self.dense = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.core_attention = FlashSelfAttention(0.1, fixed)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, 4, w // 4).permute(2, 0, 3, 1, 4)
        x = x + self.dense(self.core_attention(q, k, v).transpose(1, 2).reshape(b, s, w))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.word, self.position = nn.Embedding(32, 32), nn.Embedding(24, 32)
        self.layers = nn.Sequential(Layer(32, fixed), Layer(32, fixed))
        self.final = nn.LayerNorm(32)

    def forward(self, tokens):
        x = self.word(tokens) + self.position(torch.arange(tokens.shape[1]))
        return self.final(self.layers(x)) @ self.word.weight.T


def batch(generator, size=8):
    tokens = (torch.randint(32, (size, 1), generator=generator) * torch.arange(1, 26)) % 32
    return tokens[:, :24], tokens[:, 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=36)
    parser.add_argument("--eval-interval", type=int, default=12)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = GPT(args.fixed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.01)
    train_data, valid_data = (torch.Generator().manual_seed(args.seed + k) for k in (1, 2))
    for iteration in range(1, args.steps + 1):
        model.train()
        tokens, labels = batch(train_data)
        loss = F.cross_entropy(model(tokens).transpose(1, 2), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if iteration % args.eval_interval == 0:
            model.eval()
            with torch.no_grad():
                tokens, labels = batch(valid_data, 16)
                lm_loss = F.cross_entropy(model(tokens).transpose(1, 2), labels)
            print(f"iteration {iteration}: {loss.item():.4f}, validation {lm_loss.item():.4f}")


if __name__ == "__main__":
    main()
