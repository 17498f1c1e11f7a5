"""Differentially private SGD: per-sample gradients by vmap over grad, clipped one by one, noised, and given to SGD."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=99)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--max-norm", type=float, default=1.0)
    parser.add_argument("--noise", type=float, default=0.3)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = nn.Sequential(nn.Linear(6, args.size), nn.ReLU(), nn.Linear(args.size, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    noise_rng = torch.Generator().manual_seed(args.seed + 1)

    def sample_loss(params, x, y):
        return F.cross_entropy(functional_call(model, params, (x.unsqueeze(0),)), y.unsqueeze(0))

    per_sample = vmap(grad(sample_loss), in_dims=(None, 0, 0))
    w = torch.randn(6, 3)
    batch = 48
    for step in range(args.steps):
        x = torch.randn(batch, 6)
        y = (x @ w).argmax(1)
        params = {k: v.detach() for k, v in model.named_parameters()}
        grads = per_sample(params, x, y)
        norms = torch.sqrt(sum(g.flatten(1).pow(2).sum(1) for g in grads.values()))
        factor = (args.max_norm / (norms + 1e-6)).clamp(max=1.0)
        optimizer.zero_grad()
        for name, p in model.named_parameters():
            total = torch.einsum("b,b...->...", factor, grads[name])
            total = total + args.noise * args.max_norm * torch.randn(p.shape, generator=noise_rng)
            p.grad = total / batch
        optimizer.step()
        if step % 10 == 0:
            with torch.no_grad():
                loss = F.cross_entropy(model(x), y)
            print(f"step {step} loss {loss.item():.4f} clipped {(factor < 1).float().mean().item():.2f}")


main()
