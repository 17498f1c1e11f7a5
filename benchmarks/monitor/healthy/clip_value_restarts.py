"""Gradients clipped by value, cosine annealing with warm restarts stepped by fractions of an epoch, Huber loss."""

import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts
from torch.utils.data import DataLoader, TensorDataset

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=31)
ap.add_argument("--steps", type=int, default=64)
ap.add_argument("--size", type=int, default=40)
ns = ap.parse_args()
torch.manual_seed(ns.seed)

t = torch.linspace(0, 40, 1100)
series = torch.sin(t) + 0.4 * torch.sin(3.1 * t) + 0.05 * torch.randn(1100)
X = series.unfold(0, 24, 2)[:-1]
Y = series[24::2][: len(X), None]
X = X[: len(Y)]
split = int(0.85 * len(X))
train_dl = DataLoader(TensorDataset(X[:split], Y[:split]), batch_size=32, shuffle=True)


class Forecaster(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, channels, 5, padding=2),
            nn.GroupNorm(4, channels),
            nn.GELU(),
            nn.Conv1d(channels, channels, 5, stride=2, padding=2),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(channels * 12, 1),
        )

    def forward(self, x):
        return self.net(x.unsqueeze(1))


model = Forecaster(ns.size // 4 * 4)
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
scheduler = CosineAnnealingWarmRestarts(optimizer, T_0=1, T_mult=2, eta_min=1e-5)
iters = len(train_dl)
it, epoch = 0, 0
while it < ns.steps:
    for i, (x, y) in enumerate(train_dl):
        optimizer.zero_grad()
        loss = nn.functional.huber_loss(model(x), y, delta=0.5)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), clip_value=0.1)
        optimizer.step()
        scheduler.step(epoch + i / iters)
        it += 1
        if it % 8 == 0:
            print(f"it {it} loss {loss.item():.5f} lr {scheduler.get_last_lr()[0]:.6f}")
        if it >= ns.steps:
            break
    epoch += 1
model.eval()
with torch.no_grad():
    print("test mae", (model(X[split:]) - Y[split:]).abs().mean().item())
