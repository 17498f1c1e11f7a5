"""Two heads have a backward pass each, and the gradients of the first are cleared before the second."""
# source: https://arxiv.org/abs/1705.07115
# first effect: step 0
# names: place, zero_grad
# family: gradients
# detectable: yes what the first loss alone teaches has no gradient at any step

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()
torch.manual_seed(args.seed)
trunk = nn.Sequential(nn.Linear(10, 32), nn.GELU())
place, kind = nn.Linear(32, 2), nn.Linear(32, 3)
optimizer = torch.optim.Adam([*trunk.parameters(), *place.parameters(), *kind.parameters()], lr=2e-3)
for step in range(args.steps):
    x = torch.randn(32, 10)
    seen = trunk(x)
    first = nn.functional.smooth_l1_loss(place(seen), x[:, :2])
    second = nn.functional.cross_entropy(kind(seen), x[:, 3:6].argmax(1))
    optimizer.zero_grad()
    first.backward(retain_graph=True)
    if not args.fixed:
        optimizer.zero_grad()
    second.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{first.item():.4f}", f"{second.item():.4f}")
