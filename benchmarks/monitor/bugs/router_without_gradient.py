"""A mixture of experts takes the best expert's output as it is: the router is used and never gets a gradient."""
# source: https://arxiv.org/abs/2101.03961
# first effect: step 0
# names: router
# family: gradients
# detectable: yes parameters that an optimizer holds are used in the forward pass and never get a gradient

import argparse

import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self, width, experts, fixed):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, width)) for _ in range(experts)
        )
        self.fixed = fixed

    def forward(self, x):
        gate, chosen = self.router(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows = (chosen == index).nonzero().squeeze(1)
            out = out.index_add(0, rows, expert(x[rows]))
        return x + (out * gate[:, None] if self.fixed else out)


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()
torch.manual_seed(args.seed)
model = nn.Sequential(nn.Linear(8, 16), Mixture(16, 3, args.fixed), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(args.steps):
    x = torch.randn(48, 8)
    y = torch.where(x[:, 0] > 0, x[:, 1], -x[:, 2])
    loss = nn.functional.mse_loss(model(x).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{loss.item():.4f}")
