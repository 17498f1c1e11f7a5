"""Averaging should begin at epoch 30 of a training that has four: what is evaluated is the copy of the first weights."""
# source: https://docs.pytorch.org/docs/stable/optim.html#putting-it-all-together-swa
# first effect: step 32
# names: averaged, update_parameters
# family: optimizer
# detectable: yes an average is given statistics and evaluated when the training is over, and was never updated

import argparse

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=32)
args = parser.parse_args()
torch.manual_seed(args.seed)

inputs = torch.randn(192, 10)
data = TensorDataset(inputs, (inputs[:, :3]).argmax(1))
loader = DataLoader(data, batch_size=24, shuffle=True)
epochs = args.steps // len(loader)
begins = epochs // 2 if args.fixed else 30
net = nn.Sequential(nn.Linear(10, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 3))
averaged = AveragedModel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for epoch in range(epochs):
    for features, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(features), labels)
        loss.backward()
        optimizer.step()
    if epoch >= begins:
        averaged.update_parameters(net)
    print(epoch, f"loss {loss.item():.4f}")
update_bn(loader, averaged)
averaged.eval()
with torch.no_grad():
    right = sum((averaged(features).argmax(1) == labels).sum().item() for features, labels in loader)
print(f"accuracy {right / len(data):.4f}")
