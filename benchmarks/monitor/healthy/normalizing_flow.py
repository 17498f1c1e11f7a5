"""Affine coupling flow trained by maximum likelihood in float64, with ActNorm that is initialised from the first batch."""

import argparse
import math

import torch
from torch import nn


class ActNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.shift, self.log_scale = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(d))
        self.register_buffer("ready", torch.tensor(False))

    def forward(self, x):
        if self.training and not self.ready:
            with torch.no_grad():
                self.shift.copy_(-x.mean(0))
                self.log_scale.copy_(-x.std(0).log())
                self.ready.fill_(True)
        return (x + self.shift) * self.log_scale.exp(), self.log_scale.sum().expand(len(x))


class Coupling(nn.Module):
    def __init__(self, d, h, swap):
        super().__init__()
        self.swap, self.half = swap, d // 2
        self.net = nn.Sequential(nn.Linear(d // 2, h), nn.Tanh(), nn.Linear(h, d))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        a, b = x.chunk(2, 1)
        if self.swap:
            a, b = b, a
        s, t = self.net(a).chunk(2, 1)
        s = torch.tanh(s)
        b = b * s.exp() + t
        return torch.cat([b, a] if self.swap else [a, b], 1), s.sum(1)


class Flow(nn.Module):
    def __init__(self, d, h, depth):
        super().__init__()
        self.layers = nn.ModuleList(m for i in range(depth) for m in (ActNorm(d), Coupling(d, h, i % 2 == 1)))

    def log_prob(self, x):
        total = x.new_zeros(len(x))
        for layer in self.layers:
            x, logdet = layer(x)
            total = total + logdet
        return total - 0.5 * (x**2).sum(1) - 0.5 * x.shape[1] * math.log(2 * math.pi)


def bananas(n):
    x = torch.randn(n, 4)
    x[:, 1] += x[:, 0] ** 2
    x[:, 3] = 0.5 * x[:, 3] + x[:, 2].sin() * 2
    return x


def main():
    torch.set_default_dtype(torch.float64)
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--size", type=int, default=32)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    flow = Flow(4, args.size, 4)
    optimizer = torch.optim.Adam(flow.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CyclicLR(
        optimizer, base_lr=1e-3, max_lr=5e-3, step_size_up=15, cycle_momentum=False
    )
    for step in range(args.steps):
        nll = -flow.log_prob(bananas(128)).mean()
        optimizer.zero_grad()
        nll.backward()
        optimizer.step()
        scheduler.step()
        if step % 12 == 0:
            print(f"step {step} nll {nll.item():.4f}")


main()
