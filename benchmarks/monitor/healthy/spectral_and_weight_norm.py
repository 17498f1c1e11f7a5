"""Parametrised layers: spectral_norm in a critic, weight_norm in the dilated convolutions of a small sequence model."""

import argparse

import torch
import torch.nn as nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm


class TemporalBlock(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.pad = nn.ConstantPad1d((2 * dilation, 0), 0.0)
        self.conv = weight_norm(nn.Conv1d(channels, channels, 3, dilation=dilation))
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return torch.relu(x + self.drop(torch.relu(self.conv(self.pad(x)))))


class TCN(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.lift = weight_norm(nn.Conv1d(1, channels, 1))
        self.blocks = nn.Sequential(*(TemporalBlock(channels, 2**i) for i in range(3)))
        self.out = nn.Conv1d(channels, 1, 1)

    def forward(self, x):
        return self.out(self.blocks(self.lift(x)))


class Critic(nn.Module):
    """Lipschitz: says how much a predicted sequence looks like a true one."""

    def __init__(self, length, width):
        super().__init__()
        self.l1 = spectral_norm(nn.Linear(length, width))
        self.l2 = spectral_norm(nn.Linear(width, 1))

    def forward(self, x):
        return self.l2(torch.nn.functional.leaky_relu(self.l1(x.flatten(1)), 0.2))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=14)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--size", type=int, default=16)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    model, critic = TCN(a.size), Critic(32, a.size)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    opt_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    for step in range(a.steps):
        phase = torch.rand(16, 1, 1) * 6.28
        wave = torch.sin(torch.arange(33) / 3 + phase) + 0.05 * torch.randn(16, 1, 33)
        past, future = wave[..., :-1], wave[..., 1:]

        with torch.no_grad():
            fake = model(past)
        hinge = torch.relu(1 - critic(future)).mean() + torch.relu(1 + critic(fake)).mean()
        opt_critic.zero_grad()
        hinge.backward()
        opt_critic.step()

        predicted = model(past)
        loss = nn.functional.mse_loss(predicted, future) - 0.01 * critic(predicted).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 8 == 0:
            print(f"step {step:3d} loss {loss.item():.4f} critic {hinge.item():.4f}")


if __name__ == "__main__":
    main()
