"""A projection is made inside `forward`: every pass has another one with random weights, and none is ever trained."""
# source: https://docs.pytorch.org/docs/stable/notes/modules.html
# first effect: step 0
# names: Linear
# family: optimizer
# detectable: yes a layer whose weights need gradients computes for the loss, and no optimizer knows its weights

import argparse

import torch
from torch import nn


class PointNet(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.points = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 32), nn.ReLU())
        self.project = nn.Linear(32, 16) if fixed else None
        self.out = nn.Linear(16, 2)

    def forward(self, x):
        pooled = self.points(x).amax(1)
        if self.project is not None:
            return self.out(torch.relu(self.project(pooled)))
        return self.out(torch.relu(nn.Linear(pooled.shape[1], 16)(pooled)))


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)
model = PointNet(args.fixed)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(args.steps):
    labels = torch.randint(2, (16,))
    cloud = torch.randn(16, 24, 3) * (1 + labels[:, None, None])
    loss = nn.functional.cross_entropy(model(cloud), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{loss.item():.4f}")
