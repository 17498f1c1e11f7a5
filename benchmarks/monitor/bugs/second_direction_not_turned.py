"""A contrastive loss of two towers takes both of its directions from the same scores: texts never learn to find their picture."""
# source: https://arxiv.org/abs/2103.00020
# first effect: step 0
# names: cross_entropy
# family: loss
# detectable: yes two losses in one sum are the same function of the same scores

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Towers(nn.Module):
    def __init__(self, pictures, texts, width=16):
        super().__init__()
        self.pictures = nn.Sequential(nn.Linear(pictures, 32), nn.ReLU(), nn.Linear(32, width))
        self.texts = nn.Sequential(nn.Linear(texts, 32), nn.ReLU(), nn.Linear(32, width))
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, pictures, texts):
        seen = F.normalize(self.pictures(pictures), dim=-1)
        read = F.normalize(self.texts(texts), dim=-1)
        return self.scale.exp() * seen @ read.T


def one_way(scores):
    return F.cross_entropy(scores, torch.arange(len(scores), device=scores.device))


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()
torch.manual_seed(args.seed)

model = Towers(12, 8)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
look, word = torch.randn(4, 12), torch.randn(4, 8)
for step in range(args.steps):
    things = torch.randn(24, 4)
    scores = model(things @ look + 0.05 * torch.randn(24, 12), things @ word + 0.05 * torch.randn(24, 8))
    loss = (one_way(scores) + one_way(scores.T if args.fixed else scores)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(step, f"loss {loss.item():.4f}")
