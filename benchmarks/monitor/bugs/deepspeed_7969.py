"""A warm-up whose list of first rates has one entry: the second parameter group takes its first step at the full rate."""
# source: https://github.com/deepspeedai/DeepSpeed/pull/7969
# first effect: step 0
# names: lr, WarmupCosine
# family: schedule
# detectable: yes the rates of two groups that one schedule moves part at the first step: one begins at zero, one at its top

import argparse
import math

import torch
from torch import nn


class WarmupCosine:
    """Sets the rates of an optimizer's groups itself."""

    def __init__(self, optimizer, warm, total, fixed):
        self.optimizer, self.warm, self.total = optimizer, warm, total
        self.tops = [group["lr"] for group in optimizer.param_groups]
        self.count = 0
        first = [0.0] * len(self.tops) if fixed else [0.0]
        for group, rate in zip(optimizer.param_groups, first, strict=False):
            group["lr"] = rate

    def step(self):
        self.count += 1
        if self.count < self.warm:
            ratio = self.count / self.warm
        else:
            ratio = 0.5 * (1 + math.cos(math.pi * (self.count - self.warm) / (self.total - self.warm)))
        for group, top in zip(self.optimizer.param_groups, self.tops, strict=False):
            group["lr"] = top * ratio


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(10, 48), nn.LayerNorm(48), nn.GELU(), nn.Linear(48, 3))
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=5e-3)
    schedule = WarmupCosine(optimizer, 8, args.steps + 8, args.fixed)
    for step in range(args.steps):
        x = torch.randn(32, 10)
        y = x[:, :3].argmax(dim=1)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
