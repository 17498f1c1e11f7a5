"""A function makes the loader of an epoch and seeds before, so that runs can be compared: every epoch has the same order."""
# source: https://docs.pytorch.org/docs/stable/notes/randomness.html
# first effect: step 8
# names: loader1, loader2
# family: data
# detectable: yes loaders that shuffle give the same samples at the same places in every epoch

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)

points = torch.randn(128, 9)
data = TensorDataset(points, points.square().sum(1, keepdim=True).sqrt())


def loader_of(epoch):
    torch.manual_seed(args.seed + (epoch if args.fixed else 0))
    return DataLoader(data, batch_size=16, shuffle=True)


net = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(args.steps // 8):
    for batch, lengths in loader_of(epoch):
        optimizer.zero_grad()
        loss = nn.functional.smooth_l1_loss(net(batch), lengths)
        loss.backward()
        optimizer.step()
    print(epoch, f"loss {loss.item():.4f}")
