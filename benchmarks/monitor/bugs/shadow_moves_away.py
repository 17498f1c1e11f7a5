"""The list of averaged weights is moved by the difference with the wrong sign: with each step it is farther from what it should follow."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.lerp_.html
# first effect: step 0
# names: slow
# family: optimizer
# detectable: yes the distance between an average and what it follows grows by the same factor in each step

import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=24)
args = parser.parse_args()
torch.manual_seed(args.seed)

net = nn.Sequential(nn.Conv1d(2, 12, 5), nn.ReLU(), nn.Conv1d(12, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(120, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
slow = [one.detach().clone() for one in net.parameters()]
for step in range(args.steps):
    wave = torch.randn(32, 2, 16).cumsum(2)
    label = (wave[:, 0, -1] > 0).long() + 2 * (wave[:, 1, -1] > 0).long()
    loss = F.cross_entropy(net(wave), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for kept, one in zip(slow, net.parameters(), strict=True):
            kept.add_((kept - one if not args.fixed else one - kept), alpha=0.02)
    if step % 8 == 0:
        print(f"step {step}: {loss.item():.4f}")
