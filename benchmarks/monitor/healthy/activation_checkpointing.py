"""Activation checkpointing of each block (use_reentrant=False), with dropout whose random state is kept for recomputation."""

import argparse

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class ResidualMLP(nn.Module):
    def __init__(self, d, p):
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.GELU(), nn.Dropout(p), nn.Linear(3 * d, d))

    def forward(self, x):
        return x + self.body(x)


class DeepNet(nn.Module):
    def __init__(self, d, depth, use_checkpoint=True):
        super().__init__()
        self.use_checkpoint = use_checkpoint
        self.inp = nn.Linear(8, d)
        self.blocks = nn.ModuleList(ResidualMLP(d, 0.1) for _ in range(depth))
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            if self.use_checkpoint and self.training:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.out(x)


def train(seed, steps, size):
    torch.manual_seed(seed)
    net = DeepNet(size, 6)
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    held_x = torch.rand(64, 8)
    for step in range(steps):
        net.train()
        x = torch.rand(32, 8)
        loss = nn.functional.mse_loss(net(x), (x * 3).sin().sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            net.eval()
            with torch.no_grad():
                held = nn.functional.mse_loss(net(held_x), (held_x * 3).sin().sum(1, keepdim=True))
            print(f"step {step + 1} train {loss.item():.4f} held out {held.item():.4f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=9)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--size", type=int, default=32)
    train(**vars(p.parse_args()))
