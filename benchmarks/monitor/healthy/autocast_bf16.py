"""Mixed precision on the CPU: forward and loss under bfloat16 autocast, master weights and optimizer in float32."""

import argparse

import torch
from torch import nn


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.channel = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.token(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, dim, classes=6):
        super().__init__()
        self.patch = nn.Conv2d(1, dim, 4, 4)
        self.blocks = nn.Sequential(MixerBlock(16, dim), MixerBlock(16, dim))
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        return self.head(self.blocks(x).mean(1))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=50)
    ap.add_argument("--size", type=int, default=32)
    ap.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    cfg = ap.parse_args()

    torch.manual_seed(cfg.seed)
    device = torch.device("cpu")
    model = Mixer(cfg.size).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()
    amp_ctx = torch.autocast(device_type=device.type, dtype=torch.bfloat16, enabled=cfg.dtype == "bfloat16")
    prototypes = torch.randn(6, 1, 16, 16)
    for i in range(cfg.steps):
        y = torch.randint(0, 6, (24,), device=device)
        x = prototypes[y] + 0.8 * torch.randn(24, 1, 16, 16)
        optimizer.zero_grad(set_to_none=True)
        with amp_ctx:
            logits = model(x)
            loss = criterion(logits, y)
        loss.backward()
        optimizer.step()
        if i % 10 == 0:
            print(f"{i:4d} {loss.item():.4f} logits {logits.dtype}")
