"""Quantisation-aware training: fake quantisation with observers that are switched off in the last third of the run."""

import argparse

import torch
from torch import nn


class FakeQuant(nn.Module):
    def __init__(self, bits=6, momentum=0.1):
        super().__init__()
        self.levels, self.momentum = 2 ** (bits - 1) - 1, momentum
        self.register_buffer("peak", torch.tensor(0.0))
        self.observing = True

    def forward(self, x):
        if self.training and self.observing:
            now = x.detach().abs().max()
            self.peak.copy_(now if self.peak == 0 else (1 - self.momentum) * self.peak + self.momentum * now)
        scale = self.peak.clamp_min(1e-8) / self.levels
        q = torch.clamp((x / scale).round(), -self.levels, self.levels) * scale
        return x + (q - x).detach()


class QLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.linear, self.wq, self.aq = nn.Linear(i, o), FakeQuant(), FakeQuant()

    def forward(self, x):
        return nn.functional.linear(self.aq(x), self.wq(self.linear.weight), self.linear.bias)


def accuracy(net, w):
    net.eval()
    g = torch.Generator().manual_seed(0)
    x = torch.randn(256, 10, generator=g)
    with torch.no_grad():
        value = (net(x).argmax(1) == (x @ w).argmax(1)).float().mean().item()
    net.train()
    return value


ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=3)
ap.add_argument("--steps", type=int, default=60)
ap.add_argument("--size", type=int, default=32)
args = ap.parse_args()
torch.manual_seed(args.seed)
w = torch.randn(10, 4)
net = nn.Sequential(QLinear(10, args.size), nn.ReLU6(), QLinear(args.size, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for step in range(args.steps):
    if step == 2 * args.steps // 3:
        for module in net.modules():
            if isinstance(module, FakeQuant):
                module.observing = False
        print("observers off")
    x = torch.randn(64, 10)
    loss = nn.functional.cross_entropy(net(x), (x @ w).argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 15 == 0:
        print(f"step {step} loss {loss.item():.4f} accuracy {accuracy(net, w):.3f}")
