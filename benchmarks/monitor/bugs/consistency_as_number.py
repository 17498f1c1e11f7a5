"""The consistency between two noisy looks at a sample is added as `.item()`: the loss that is printed holds it, and nothing learns from it."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.item.html
# first effect: step 0
# names: mse_loss
# family: gradients
# detectable: yes the loss is the sum of two losses in value, and gradients come to one of them alone

import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()
torch.manual_seed(args.seed)

net = nn.Sequential(nn.Linear(10, 40), nn.GELU(), nn.Linear(40, 5))
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
true = torch.randn(10, 5)
for step in range(args.steps):
    x = torch.randn(48, 10)
    labels = (x @ true).argmax(1)
    first, second = net(x + 0.3 * torch.randn_like(x)), net(x + 0.3 * torch.randn_like(x))
    supervised = F.cross_entropy(first, labels)
    consistency = F.mse_loss(first, second)
    loss = supervised + 2.0 * (consistency if args.fixed else consistency.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.4f}, apart {consistency.item():.4f}")
