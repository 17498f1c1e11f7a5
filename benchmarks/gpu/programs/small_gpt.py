"""A GPT of 0.8 M parameters, attention written out: batches of 8 x 64; the host is what it waits for."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.register_buffer("mask", torch.tril(torch.ones(64, 64, dtype=torch.bool)))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(width // self.heads)
        shares = F.softmax(scores.masked_fill(~self.mask, float("-inf")), dim=-1)
        x = x + self.proj((shares @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=65, width=128, layers=4):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        return self.head(self.norm(self.blocks(x)))


torch.manual_seed(0)
device = "cuda"
model = GPT().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(60):
    tokens = torch.randint(0, 65, (8, 65), device=device)
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
