"""A translation model whose attention drops probabilities in evaluation too."""
# source: https://github.com/huggingface/transformers/issues/33844
# first effect: step 10
# names: scaled_dot_product_attention, attention
# family: mode
# detectable: yes attention drops with a probability above zero while its module is in evaluation

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, dropout, fixed):
        super().__init__()
        self.heads, self.dropout, self.fixed = heads, dropout, fixed
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        dropout = self.dropout if self.training or not self.fixed else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Encoder(nn.Module):
    def __init__(self, vocabulary, width, fixed):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.attention = Attention(width, 4, 0.1, fixed)
        self.norm1 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4 * width, width))
        self.norm2 = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.tokens(ids) / math.sqrt(self.tokens.embedding_dim)
        x = self.norm1(x + self.attention(x))
        x = self.norm2(x + self.mlp(x))
        return self.lm_head(x)


@torch.no_grad()
def evaluate(model, ids, target):
    model.eval()
    losses = [F.cross_entropy(model(ids).flatten(0, 1), target.flatten()).item() for _ in range(2)]
    model.train()
    return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = Encoder(64, 32, args.fixed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    held = torch.randint(0, 64, (32, 12))
    for step in range(args.steps):
        ids = torch.randint(0, 64, (16, 12))
        loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flip(1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"{step + 1}: train {loss.item():.4f}, evaluated twice {evaluate(model, held, held.flip(1))}")


if __name__ == "__main__":
    main()
