"""A moving average of the weights that leaves out the buffers: the averaged model is evaluated with untouched statistics."""
# source: https://github.com/FlyreelAI/sesemi/issues/36
# first effect: step 10
# names: running_mean, running_var, ema
# family: mode
# detectable: yes the running statistics of the model that is evaluated are those that it was made with

import argparse
import copy

import torch
from torch import nn


class ExponentialMovingAverage:
    def __init__(self, model, decay, fixed):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay, self.fixed = decay, fixed

    @torch.no_grad()
    def update(self, model):
        for mean, now in zip(self.model.parameters(), model.parameters(), strict=True):
            mean.lerp_(now, 1 - self.decay)
        if self.fixed:
            for mean, now in zip(self.model.buffers(), model.buffers(), strict=True):
                mean.copy_(now)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Conv1d(1, 8, 5), nn.BatchNorm1d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 12, 2))
    average = ExponentialMovingAverage(model, 0.8, args.fixed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    held = 4 + 3 * torch.randn(64, 1, 16)
    truth = (held[:, 0, :8].sum(1) > held[:, 0, 8:].sum(1)).long()
    for step in range(args.steps):
        x = 4 + 3 * torch.randn(32, 1, 16)
        y = (x[:, 0, :8].sum(1) > x[:, 0, 8:].sum(1)).long()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model)
        if step % 10 == 9:
            with torch.no_grad():
                right = (average.model(held).argmax(1) == truth).float().mean().item()
            print(f"step {step} loss {loss.item():.4f} accuracy of the average {right:.3f}")


if __name__ == "__main__":
    main()
