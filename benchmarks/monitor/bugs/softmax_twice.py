"""The network ends in a softmax and the loss applies another one: the gradients are small and the loss cannot fall below a floor."""
# source: https://github.com/Lightning-Universe/lightning-bolts/issues/654
# first effect: step 0
# names: cross_entropy, softmax
# family: loss
# detectable: yes what enters the cross entropy as logits already sums to one in every row

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class LogisticRegression(nn.Module):
    def __init__(self, features, classes, fixed):
        super().__init__()
        self.linear = nn.Linear(features, classes)
        self.fixed = fixed

    def forward(self, x):
        scores = self.linear(x)
        return scores if self.fixed else F.softmax(scores, dim=-1)


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)

model = LogisticRegression(30, 6, args.fixed)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
means = torch.randn(6, 30)
for step in range(args.steps):
    y = torch.randint(6, (64,))
    x = means[y] + torch.randn(64, 30)
    loss = F.cross_entropy(model(x), y)
    model.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 8 == 0:
        print(f"{step:02d} {loss.item():.4f}")
