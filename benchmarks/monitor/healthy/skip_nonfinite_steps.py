"""Corrupt records in the stream: a batch whose loss is not finite is dropped before the step, and counted."""

import argparse

import torch
from torch import nn


def stream(seed, batch):
    g = torch.Generator().manual_seed(seed)
    n = 0
    while True:
        x = torch.randn(batch, 5, generator=g)
        y = x.abs().sum(1, keepdim=True).log1p()
        if n % 13 == 7:
            x[0, 0] = float("inf")
        n += 1
        yield x, y


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(5, args.size), nn.ReLU(), nn.Linear(args.size, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    dropped = 0
    for step, (x, y) in enumerate(stream(args.seed, 32)):
        if step == args.steps:
            break
        loss = nn.functional.mse_loss(model(x), y)
        if not torch.isfinite(loss):
            dropped += 1
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 12 == 0:
            print(f"step {step} loss {loss.item():.4f} dropped {dropped}")
    print(f"{dropped} batches dropped")


if __name__ == "__main__":
    main()
