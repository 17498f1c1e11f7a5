"""A segmentation network ends in a sigmoid and its loss is the cross entropy over classes: scores stay within 0 and 1."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
# first effect: step 0
# names: CrossEntropyLoss, cross_entropy, Sigmoid
# family: loss
# detectable: yes what the loss takes for scores comes out of a sigmoid

import argparse

import torch
from torch import nn


def network(fixed):
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 3, 1)]
    return nn.Sequential(*layers, *([] if fixed else [nn.Sigmoid()]))


def scene(count):
    image = torch.randn(count, 1, 16, 16) * 0.2
    mask = torch.zeros(count, 16, 16, dtype=torch.long)
    for index in range(count):
        row, column = torch.randint(1, 9, (2,)).tolist()
        mask[index, row : row + 5, column : column + 5] = 1 + index % 2
    return image + mask[:, None], mask


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=25)
args = parser.parse_args()
torch.manual_seed(args.seed)
model = network(args.fixed)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(args.steps):
    image, mask = scene(8)
    loss = criterion(model(image), mask)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, f"{loss.item():.4f}")
