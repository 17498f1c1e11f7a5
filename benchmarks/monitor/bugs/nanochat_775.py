"""Progress counts micro-batches and the horizon counts steps: the multiplier of the rate falls below zero within the first steps."""
# source: https://github.com/karpathy/nanochat/pull/775
# first effect: step 0
# names: lr
# family: schedule
# detectable: yes the learning rate is below zero while steps are made

import argparse

import torch
from torch import nn
from torch.nn import functional as F

MICRO = 4


def multiplier(progress):
    return 1.0 if progress < 0.5 else 1.0 - (progress - 0.5) / 0.5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Embedding(40, 24), nn.Flatten(), nn.Linear(24 * 5, 40))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    horizon = args.steps if args.fixed else args.steps // 4
    given = 0
    for step in range(args.steps):
        for _ in range(MICRO):
            words = torch.randint(0, 40, (8, 6)).sort(dim=1).values
            given += 1
            loss = F.cross_entropy(model(words[:, :5]), words[:, 5]) / MICRO
            loss.backward()
        progress = (given / MICRO if args.fixed else given) / horizon
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * multiplier(min(progress, 0.99) if args.fixed else progress)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 6 == 0:
            print(f"step {step} loss {loss.item() * MICRO:.4f}")


if __name__ == "__main__":
    main()
