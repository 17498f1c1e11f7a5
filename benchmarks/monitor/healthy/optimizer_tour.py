"""One small problem fitted by many optimizers in turn: Adagrad, Adadelta, RMSprop, RAdam, NAdam, Adafactor, Rprop, ASGD ..."""

import argparse

import torch
from torch import nn

CHOICES = {
    "SGD": dict(lr=0.1),
    "Adagrad": dict(lr=0.05),
    "Adadelta": dict(lr=1.0),
    "RMSprop": dict(lr=3e-3, momentum=0.9, centered=True),
    "RAdam": dict(lr=1e-2),
    "NAdam": dict(lr=5e-3),
    "Adamax": dict(lr=1e-2),
    "Adafactor": dict(lr=2e-2),
    "ASGD": dict(lr=0.1),
    "Rprop": dict(lr=1e-3),
}


def fit(name, options, seed, steps, size):
    torch.manual_seed(seed)
    x = torch.randn(256, 8)
    y = torch.tanh(x @ torch.randn(8, 2))
    model = nn.Sequential(nn.Linear(8, size), nn.Tanh(), nn.Linear(size, 2))
    optimizer = getattr(torch.optim, name)(model.parameters(), **options)
    full = name == "Rprop"  # resilient propagation wants the whole set
    first = None
    for _ in range(steps):
        pick = slice(None) if full else torch.randint(0, 256, (64,))
        loss = nn.functional.mse_loss(model(x[pick]), y[pick])
        first = loss.item() if first is None else first
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{name:10s} {first:.4f} -> {loss.item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30, help="for each optimizer")
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--only", choices=sorted(CHOICES))
    args = parser.parse_args()
    for name, options in CHOICES.items():
        if hasattr(torch.optim, name) and args.only in (None, name):
            fit(name, options, args.seed, args.steps, args.size)


if __name__ == "__main__":
    main()
