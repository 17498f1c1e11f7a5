"""Validation runs in training mode: its samples move the batch statistics of the model."""
# source: https://github.com/princeton-vl/pytorch_stacked_hourglass/issues/44
# first effect: step 8
# names: bn.running_mean, bn.running_var, BatchNorm2d, eval
# family: mode
# detectable: yes running statistics change in forward passes without gradients that no training step follows

import argparse

import torch
from torch import nn


class Hourglass(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.drop = nn.Dropout2d(0.1)
        self.heat = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        return self.heat(self.drop(torch.relu(self.bn(self.conv(x)))))


def blobs(n):
    grid = torch.arange(12.0)
    at = 2 + 8 * torch.rand(n, 2)
    heat = torch.exp(-((grid[None, :, None] - at[:, :1, None]) ** 2 + (grid[None, None, :] - at[:, 1:, None]) ** 2) / 4)
    return heat[:, None] + 0.3 * torch.randn(n, 1, 12, 12), heat[:, None]


def run(phase, model, optimizer, fixed, shift=0.0):
    model.train(phase == "train" or not fixed)
    x, y = blobs(16)
    if phase == "train":
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    else:
        with torch.no_grad():
            loss = nn.functional.mse_loss(model(x + shift), y)
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Hourglass()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    for step in range(args.steps):
        loss = run("train", model, optimizer, args.fixed)
        if step % 8 == 7:
            val = sum(run("valid", model, optimizer, args.fixed, shift=1.0) for _ in range(4)) / 4
            mean = model.bn.running_mean.abs().mean().item()
            print(f"step {step} train {loss:.4f} valid {val:.4f} running mean {mean:.4f}")


main()
