"""The mask of future tokens is given to the attention as it is, which reads it as what may be attended to."""
# source: https://github.com/rasbt/LLMs-from-scratch/pull/1062
# first effect: step 0
# names: scaled_dot_product_attention, attention
# family: loss
# detectable: yes a token attends to those after it, which it is trained to predict, and to none before it

import argparse

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads, length, fixed):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        future = torch.triu(torch.ones(length, length), diagonal=1).bool()
        self.register_buffer("mask", ~future if fixed else future)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, attn_mask=self.mask[:length, :length])
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Writer(nn.Module):
    def __init__(self, fixed, words=40, width=32, length=24):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.attention = Attention(width, 4, length, fixed)
        self.first, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.last(x + self.attention(self.first(x))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    text = torch.randint(0, 40, (4000,))
    model = Writer(args.fixed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(args.steps):
        starts = torch.randint(0, 3900, (8, 1))
        lines = text[starts + torch.arange(25)]
        loss = nn.functional.cross_entropy(model(lines[:, :-1]).flatten(0, 1), lines[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
