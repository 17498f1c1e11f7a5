"""A regression whose network ends in a ReLU, while its targets were standardised: half of them are below zero."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU.html
# first effect: step 0
# names: relu
# family: loss
# detectable: yes a large part of the targets lies where the last activation cannot reach

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)

table = torch.randn(256, 6)
values = (2 * table[:, :1] - table[:, 1:2] + 0.3 * table[:, 2:3] ** 2) * 10 + 50
values = (values - values.mean()) / values.std()
layers = [nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1), *([] if args.fixed else [nn.ReLU()])]
model = nn.Sequential(*layers)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(args.steps):
    rows = torch.randint(0, 256, (32,))
    loss = nn.functional.mse_loss(model(table[rows]), values[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"loss {loss.item():.4f}")
