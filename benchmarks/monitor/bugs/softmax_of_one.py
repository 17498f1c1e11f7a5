"""A binary classifier with one output ends in a softmax over it: it says one for everything, whatever it learns."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax.html
# first effect: step 0
# names: Softmax, softmax, gradient
# family: loss
# detectable: yes the output is one for every sample, and no gradient is other than zero

import argparse

import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(11, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.score = nn.Linear(16, 1)
        self.probability = nn.Sigmoid() if fixed else nn.Softmax(dim=1)

    def forward(self, x):
        return self.probability(self.score(self.features(x)))


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()
torch.manual_seed(args.seed)
net = Detector(args.fixed)
loss_fn = nn.BCELoss()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for step in range(args.steps):
    x = torch.randn(32, 11)
    y = (x[:, 0] > 0.2).float()[:, None]
    loss = loss_fn(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, f"{loss.item():.4f}")
