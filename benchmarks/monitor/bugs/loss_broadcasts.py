"""Predictions are (N, 1) and targets (N,): the loss compares every prediction with every target and the model learns the mean."""
# source: https://github.com/pytorch/pytorch/issues/16045
# first effect: step 0
# names: MSELoss
# family: loss
# detectable: yes the loss receives two shapes that broadcast to a third one (torch also warns)

import argparse

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)

x = torch.randn(128, 2)
y = 1 + 3 * x[:, 0] - 2 * x[:, 1] + 0.1 * torch.randn(128)
if args.fixed:
    y = y.reshape(-1, 1)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_func = nn.MSELoss()
for epoch in range(args.steps):
    optimizer.zero_grad()
    loss = loss_func(model(x), y)
    loss.backward()
    optimizer.step()
    if epoch % 10 == 0 or epoch == args.steps - 1:
        print("epoch", epoch, "loss", loss.item())
