"""Meta-learning: an inner loop of differentiable gradient steps on fast weights, an outer Adam on the initial ones."""

from argparse import ArgumentParser
from math import pi

import torch
from torch import autograd, nn
from torch.func import functional_call


def sine_task():
    amplitude, phase = 0.5 + 2 * torch.rand(1), pi * torch.rand(1)

    def draw(n):
        x = 10 * torch.rand(n, 1) - 5
        return x, amplitude * torch.sin(x + phase)

    return draw


def adapt(net, weights, x, y, lr, inner_steps):
    for _ in range(inner_steps):
        loss = nn.functional.mse_loss(functional_call(net, weights, x), y)
        grads = autograd.grad(loss, list(weights.values()), create_graph=True)
        weights = {k: w - lr * g for (k, w), g in zip(weights.items(), grads)}
    return weights


if __name__ == "__main__":
    p = ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--size", type=int, default=32)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    net = nn.Sequential(nn.Linear(1, a.size), nn.ReLU(), nn.Linear(a.size, a.size), nn.ReLU(), nn.Linear(a.size, 1))
    meta = torch.optim.Adam(net.parameters(), lr=5e-3)
    for it in range(a.steps):
        meta.zero_grad()
        total = 0.0
        for _ in range(4):
            task = sine_task()
            fast = adapt(net, dict(net.named_parameters()), *task(10), lr=0.02, inner_steps=2)
            x, y = task(15)
            loss = nn.functional.mse_loss(functional_call(net, fast, x), y) / 4
            loss.backward()
            total += loss.item()
        meta.step()
        if it % 10 == 0:
            print(f"meta step {it}: query loss {total:.4f}")
