"""A `LambdaLR` is given a function that returns the rate itself, which the schedule multiplies with the rate once more."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LambdaLR.html
# first effect: step 0
# names: LambdaLR
# family: schedule
# detectable: no a rate that is small at every step may be meant

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
base = 0.02
optimizer = torch.optim.Adam(model.parameters(), lr=base)
factor = 1.0 if args.fixed else base
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor * 0.97**step)
for step in range(args.steps):
    x = torch.randn(32, 10)
    loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 10 == 0:
        print(step, f"{loss.item():.4f} {scheduler.get_last_lr()[0]:.6f}")
