"""Fine-tuning with gradual unfreezing from the top and layer-wise learning rates that shrink towards the input."""

from argparse import ArgumentParser

import torch
from torch import nn
from torch.nn import functional as F


class Stack(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.embed = nn.Linear(16, d)
        self.layers = nn.ModuleList([nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU()) for _ in range(n)])
        self.classifier = nn.Linear(d, 3)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.classifier(x)


def layerwise_groups(model, lr, decay):
    parts = [model.classifier, *reversed(model.layers), model.embed]
    return [{"params": list(part.parameters()), "lr": lr * decay**depth} for depth, part in enumerate(parts)]


def main():
    ap = ArgumentParser()
    ap.add_argument("--seed", type=int, default=17)
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--size", type=int, default=32)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    model = Stack(a.size, 3)
    optimizer = torch.optim.AdamW(layerwise_groups(model, 5e-3, 0.6), weight_decay=0.01)
    groups = optimizer.param_groups

    for group in groups[1:]:
        for p in group["params"]:
            p.requires_grad_(False)
    thawed = 1

    w = torch.randn(16, 3)
    every = max(1, a.steps // len(groups))
    for step in range(a.steps):
        if step > 0 and step % every == 0 and thawed < len(groups):
            for p in groups[thawed]["params"]:
                p.requires_grad_(True)
            thawed += 1
            print(f"step {step}: {thawed} of {len(groups)} groups train")
        x = torch.randn(32, 16)
        y = (torch.tanh(x) @ w).argmax(1)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
