"""The first of two losses is passed back by itself and once more in their sum: it counts twice."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html
# first effect: step 0
# names: backward
# family: gradients
# detectable: yes a loss that was passed back already is part of the next one before any step or clearing

import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)

shared = nn.Sequential(nn.Linear(10, 32), nn.ReLU())
kind, size = nn.Linear(32, 3), nn.Linear(32, 1)
parameters = [*shared.parameters(), *kind.parameters(), *size.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.05)
for step in range(args.steps):
    x = torch.randn(40, 10)
    hidden = shared(x)
    kind_loss = F.cross_entropy(kind(hidden), x[:, :3].argmax(1))
    size_loss = F.mse_loss(size(hidden).squeeze(1), x.norm(dim=1))
    optimizer.zero_grad()
    kind_loss.backward(retain_graph=True)
    (size_loss if args.fixed else kind_loss + size_loss).backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{kind_loss.item():.4f} {size_loss.item():.4f}")
