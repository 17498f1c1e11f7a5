"""An attention that is written with einsum has its softmax over the queries: what a position attends to does not sum to one."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
# first effect: step 0
# names: attention, softmax
# family: other
# detectable: yes the weights of an attention sum to one over another axis than that which they go over

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads, dim):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (one.view(batch, length, self.heads, width // self.heads) for one in self.qkv(x).chunk(3, dim=-1))
        scores = torch.einsum("nqhd,nkhd->nhqk", q, k) / (width // self.heads) ** 0.5
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = self.drop(scores.masked_fill(hidden, -1e9).softmax(dim=self.dim))
        mixed = torch.einsum("nhqk,nkhd->nqhd", weights, v)
        return self.out(mixed.reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, dim):
        super().__init__()
        self.attention = Attention(width, heads, dim)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class Model(nn.Module):
    def __init__(self, vocabulary, length, width, dim):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.02 * torch.randn(1, length, width))
        self.blocks = nn.Sequential(*(Block(width, 4, dim) for _ in range(2)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions[:, : tokens.size(1)]
        return self.head(self.norm(self.blocks(x)))


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)

vocabulary, length, batch = 30, 24, 16
model = Model(vocabulary, length, 32, -1 if args.fixed else -2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
follows = torch.randperm(vocabulary)
for step in range(args.steps):
    rows = [torch.randint(vocabulary, (batch,))]
    for _ in range(length):
        rows.append(follows[rows[-1]])
    text = torch.stack(rows, 1)
    loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"loss {loss.item():.3f}")
