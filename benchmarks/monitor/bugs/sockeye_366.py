"""A second stage makes a new optimizer and goes on stepping the scheduler of the first."""
# source: https://github.com/awslabs/sockeye/issues/366
# first effect: step 13
# names: CosineAnnealingLR, lr
# family: schedule
# detectable: yes a scheduler is stepped whose optimizer is not, and the optimizer in use keeps its rate

import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=24)
args = parser.parse_args()

torch.manual_seed(args.seed)
model = nn.Sequential(nn.Linear(9, 36), nn.ELU(), nn.Linear(36, 36), nn.ELU(), nn.Linear(36, 1))


def fit(optimizer, scheduler, steps):
    for _ in range(steps):
        x = torch.randn(40, 9)
        y = (x[:, :3] * x[:, 3:6]).sum(dim=1, keepdim=True)
        loss = nn.functional.smooth_l1_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    print(f"loss {loss.item():.4f}, rate {optimizer.param_groups[0]['lr']:.6f}")


half = args.steps // 2
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = CosineAnnealingLR(optimizer, T_max=half)
fit(optimizer, scheduler, half)

optimizer = torch.optim.SGD(model.parameters(), lr=5e-2, momentum=0.9)
if args.fixed:
    scheduler = CosineAnnealingLR(optimizer, T_max=args.steps - half)
fit(optimizer, scheduler, args.steps - half)
