"""The average of the weights is cast to bfloat16 like the copies that are served, and its small steps are rounded away."""
# source: https://arxiv.org/abs/2010.06192
# first effect: step 0
# names: average
# family: precision
# detectable: yes of the numbers of the average that lie a little apart from the weights none moves

import argparse
import copy

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)
model = nn.Sequential(nn.Linear(6, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU(), nn.Linear(48, 3))
kind = torch.float32 if args.fixed else torch.bfloat16
average = copy.deepcopy(model).requires_grad_(False).to(kind)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(args.steps):
    x = torch.randn(32, 6)
    loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for own, new in zip(average.parameters(), model.parameters(), strict=True):
            own.mul_(0.999).add_(new.to(kind), alpha=0.001)
    if step % 10 == 9:
        with torch.no_grad():
            x = torch.randn(64, 6)
            right = (average(x.to(kind)).argmax(1) == x[:, :3].argmax(1)).float().mean().item()
        print(step, f"{loss.item():.4f}", f"{right:.2f}")
