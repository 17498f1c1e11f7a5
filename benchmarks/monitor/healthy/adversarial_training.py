"""Adversarial training: a few signed gradient steps on the inputs with the model in eval mode, then a training step."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F


def attack(model, x, y, eps=0.2, alpha=0.08, steps=3):
    was_training = model.training
    model.eval()
    delta = torch.empty_like(x).uniform_(-eps, eps)
    for _ in range(steps):
        delta.requires_grad_(True)
        loss = F.cross_entropy(model(x + delta), y)
        (gradient,) = torch.autograd.grad(loss, delta)
        delta = (delta.detach() + alpha * gradient.sign()).clamp(-eps, eps)
    model.train(was_training)
    return (x + delta).detach()


def make_model(width):
    return nn.Sequential(
        nn.Conv1d(2, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
        nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(width, 3),
    )  # fmt: skip


def signals(n, g):
    y = torch.randint(0, 3, (n,), generator=g)
    t = torch.linspace(0, 6.28, 32)
    phase = torch.rand(n, 1, generator=g) * 6.28
    wave = torch.sin((2.0 * y[:, None] + 1) * t + phase)
    return torch.stack([wave, wave.roll(8, 1)], 1) + 0.2 * torch.randn(n, 2, 32, generator=g), y


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--seed", type=int, default=0)
    cli.add_argument("--steps", type=int, default=36)
    cli.add_argument("--size", type=int, default=16)
    cfg = cli.parse_args()
    torch.manual_seed(cfg.seed)
    g = torch.Generator().manual_seed(cfg.seed)
    model = make_model(cfg.size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=2e-4)
    test_x, test_y = signals(128, g)
    model.train()
    for step in range(cfg.steps):
        x, y = signals(32, g)
        adv = attack(model, x, y)
        loss = F.cross_entropy(model(adv), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 9 == 0:
            hostile = attack(model, test_x, test_y)
            model.eval()
            with torch.no_grad():
                clean = (model(test_x).argmax(1) == test_y).float().mean().item()
                robust = (model(hostile).argmax(1) == test_y).float().mean().item()
            model.train()
            print(f"step {step} loss {loss.item():.4f} clean {clean:.3f} robust {robust:.3f}")
