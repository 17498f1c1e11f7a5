"""A density model is trained on its likelihood with the wrong sign: the data becomes ever less likely."""
# source: https://docs.pytorch.org/docs/stable/distributions.html
# first effect: step 0
# names: loss
# family: loss
# detectable: no a loss that falls is all that can be seen, and a density may have either sign

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)
net = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(args.steps):
    x = torch.randn(48, 4)
    y = x.sum(1) + 0.5 * torch.randn(48)
    mean, spread = net(x).unbind(1)
    likelihood = torch.distributions.Normal(mean, spread.exp().clamp(0.3, 3.0)).log_prob(y).mean()
    loss = -likelihood if args.fixed else likelihood
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{loss.item():.4f}")
