"""`[layer] * 3` in a module list is one layer three times: what should be three layers share their weights."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html
# first effect: step 0
# names: layers
# family: init
# detectable: no layers may share their weights on purpose

import argparse

import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        layer = nn.Linear(24, 24)
        others = [nn.Linear(24, 24) for _ in range(2)]
        self.first = nn.Linear(6, 24)
        self.layers = nn.ModuleList([layer, *others] if fixed else [layer] * 3)
        self.last = nn.Linear(24, 1)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.last(x)


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()
torch.manual_seed(args.seed)
model = Deep(args.fixed)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(args.steps):
    x = torch.randn(32, 6)
    loss = nn.functional.mse_loss(model(x).squeeze(1), (x * x).mean(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{loss.item():.4f}")
