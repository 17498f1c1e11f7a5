"""The rate is decayed by setting `optimizer.lr`, which nothing reads: every step keeps the first rate."""
# source: https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate
# first effect: step 10
# names: lr, SGD
# family: schedule
# detectable: yes an attribute with the name of a setting is worth a number that no group has

import argparse

import torch
from torch import nn


def adjust(optimizer, epoch, base, fixed):
    rate = base * 0.5**epoch
    if fixed:
        for group in optimizer.param_groups:
            group["lr"] = rate
    else:
        optimizer.lr = rate


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(args.steps):
        if step % 10 == 0:
            adjust(optimizer, step // 10, 0.1, args.fixed)
        points = torch.randn(24, 5)
        loss = nn.functional.cross_entropy(net(points), points[:, :3].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
