"""The losses of three heads are gone through, and the total is set to each in turn: the last one is all that is left."""
# source: https://arxiv.org/abs/1705.07115
# first effect: step 0
# names: depth, normal
# family: loss
# detectable: yes heads that the optimizer holds never get a gradient, though their losses are computed in each step

import argparse

import torch
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Scene(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(12, 32), nn.ReLU())
        self.depth, self.normal, self.label = nn.Linear(32, 1), nn.Linear(32, 3), nn.Linear(32, 4)

    def forward(self, x):
        seen = self.trunk(x)
        return {"depth": self.depth(seen).squeeze(1), "normal": self.normal(seen), "label": self.label(seen)}


model = Scene()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
functions = {"depth": functional.l1_loss, "normal": functional.mse_loss, "label": functional.cross_entropy}
for step in range(args.steps):
    x = torch.randn(32, 12)
    wanted = {"depth": x[:, 0].abs(), "normal": x[:, 1:4], "label": x[:, 4:8].argmax(1)}
    told = model(x)
    total = torch.zeros(())
    for name, function in functions.items():
        term = function(told[name], wanted[name])
        total = total + term if args.fixed else term
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{total.item():.4f}")
