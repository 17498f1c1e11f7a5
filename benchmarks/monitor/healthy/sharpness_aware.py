"""Sharpness-aware minimisation: climb to the worst point nearby, take its gradient, come back, and step plain SGD."""

import argparse
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import nn


class Perturbation:
    """Moves the parameters along their gradient by a fixed distance, and back exactly."""

    def __init__(self, params, rho):
        self.params, self.rho, self.kept = list(params), rho, None

    @torch.no_grad()
    def climb(self):
        active = [p for p in self.params if p.grad is not None]
        length = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in active]))
        self.kept = [(p, p.clone()) for p in active]
        for p in active:
            p.add_(p.grad, alpha=float(self.rho / (length + 1e-12)))

    @torch.no_grad()
    def come_back(self):
        for p, old in self.kept:
            p.copy_(old)
        self.kept = None


@contextmanager
def frozen_statistics(model):
    """The second forward of a step must not count twice in the running averages."""
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d)]
    momenta = [m.momentum for m in norms]
    for m in norms:
        m.momentum = 0.0
    yield
    for m, momentum in zip(norms, momenta):
        m.momentum = momentum


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--size", type=int, default=32)
    p.add_argument("--rho", type=float, default=0.05)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(12, args.size), nn.BatchNorm1d(args.size), nn.ReLU(), nn.Linear(args.size, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    nearby = Perturbation(model.parameters(), args.rho)
    w = torch.randn(12, 4)
    for step in range(args.steps):
        x = torch.randn(64, 12)
        y = (x @ w).argmax(1)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nearby.climb()
        optimizer.zero_grad()
        with frozen_statistics(model):
            F.cross_entropy(model(x), y).backward()
        nearby.come_back()
        optimizer.step()
        optimizer.zero_grad()
        if step % 8 == 0:
            print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
