"""Mixup draws one permutation for the images and another one for the labels: half of every label belongs to another image."""
# source: https://github.com/xudonmao/VMT/issues/1
# first effect: step 0
# names: randperm, cross_entropy
# family: data
# detectable: no images and labels are both well-formed; that they belong together nobody can see

import argparse

import torch
from torch import nn


def mixup(x, y, fixed):
    lam = torch.distributions.Beta(1.0, 1.0).sample()
    for_x = torch.randperm(len(x))
    for_y = torch.randperm(len(y))
    if fixed:
        for_y = for_x
    return lam * x + (1 - lam) * x[for_x], lam * y + (1 - lam) * y[for_y]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    prototypes = torch.randn(5, 1, 10, 10)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 5))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for step in range(args.steps):
        label = torch.randint(0, 5, (48,))
        image = prototypes[label] + 0.5 * torch.randn(48, 1, 10, 10)
        mixed, target = mixup(image, nn.functional.one_hot(label, 5).float(), args.fixed)
        loss = nn.functional.cross_entropy(net(mixed), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
