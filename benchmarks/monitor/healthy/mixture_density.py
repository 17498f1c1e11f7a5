"""A mixture density network: weights, means and widths of several normal distributions, likelihood by logsumexp by hand."""

import argparse
import math

import torch
from torch import nn


class MixtureDensity(nn.Module):
    def __init__(self, width, parts):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.weight = nn.Linear(width, parts)
        self.mean = nn.Linear(width, parts)
        self.spread = nn.Linear(width, parts)

    def forward(self, x):
        h = self.body(x)
        return self.weight(h), self.mean(h), self.spread(h).clamp(-4, 4)


def likelihood(model, x, y):
    weight, mean, spread = model(x)
    each = -0.5 * ((y - mean) / spread.exp()).square() - spread - 0.5 * math.log(2 * math.pi)
    return torch.logsumexp(torch.log_softmax(weight, dim=-1) + each, dim=-1).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = MixtureDensity(args.size, 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(args.steps):
        y = 2 * torch.rand(128, 1) - 1
        x = y + 0.3 * torch.sin(2 * math.pi * y) + 0.05 * torch.randn_like(y)
        loss = -likelihood(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 15 == 0:
            print(f"step {step} negative log likelihood {loss.item():.4f}")


if __name__ == "__main__":
    main()
