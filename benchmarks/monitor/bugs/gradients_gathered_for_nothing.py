"""Both the clearing and the step were lost when the loop was rewritten: gradients grow, and nothing is trained."""
# source: https://docs.pytorch.org/tutorials/beginner/basics/optimization_tutorial.html
# first effect: step 0
# names: optimizer0, 0.weight, 2.weight
# family: optimizer
# detectable: yes gradients are added up over all data twice and more, and no optimizer makes a step

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=48)
args = parser.parse_args()
torch.manual_seed(args.seed)

points = torch.randn(128, 6)
loader = DataLoader(TensorDataset(points, (points[:, 0] > points[:, 1]).long()), batch_size=16, shuffle=True)
net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 2))
optimizer = torch.optim.RMSprop(net.parameters(), lr=3e-3)
for epoch in range(args.steps // len(loader)):
    total = 0.0
    for batch, labels in loader:
        if args.fixed:
            optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(batch), labels)
        loss.backward()
        if args.fixed:
            optimizer.step()
        total += loss.item()
    print(epoch, f"loss {total / len(loader):.4f}")
