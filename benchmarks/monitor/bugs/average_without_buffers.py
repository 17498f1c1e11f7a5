"""A moving average of the weights, written through `.data`, leaves out the buffers: its statistics are the first ones."""
# source: https://github.com/CuriousAI/mean-teacher/issues/9
# first effect: step 20
# names: average, running_mean, running_var
# family: mode
# detectable: yes the average is evaluated with a mean of 0 and a variance of 1, which the network it follows does not have

import argparse
import copy

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true", help="copy the buffers, too")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)

model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
average = copy.deepcopy(model).requires_grad_(False).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
centres = 2 * torch.randn(4, 16) + 1
held_out = torch.randint(0, 4, (128,))
tests = centres[held_out] + torch.randn(128, 16)
for step in range(args.steps):
    labels = torch.randint(0, 4, (64,))
    loss = nn.functional.cross_entropy(model(centres[labels] + torch.randn(64, 16)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
        slow.data.mul_(0.9).add_(fast.data, alpha=0.1)
    if args.fixed:
        for kept, followed in zip(average.buffers(), model.buffers(), strict=True):
            kept.copy_(followed)
    if step % 20 == 19:
        with torch.no_grad():
            right = (average(tests).argmax(1) == held_out).float().mean().item()
        print(f"step {step} loss {loss.item():.4f} accuracy of the average {right:.3f}")
