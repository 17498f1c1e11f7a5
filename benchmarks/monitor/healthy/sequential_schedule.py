"""Vision transformer with SequentialLR (linear warm-up, cosine, constant tail), stochastic depth and mixup."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LinearLR, SequentialLR


class DropPath(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0.0:
            return x
        keep = 1 - self.p
        return x * torch.empty(x.shape[0], 1, 1).bernoulli_(keep) / keep


class EncoderBlock(nn.Module):
    def __init__(self, d, heads, drop_path):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.drop_path = DropPath(drop_path)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.drop_path(self.attn(h, h, h, need_weights=False)[0])
        return x + self.drop_path(self.mlp(self.norm2(x)))


class ViT(nn.Module):
    def __init__(self, d, classes):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 4, 4)
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.pos = nn.Parameter(torch.randn(1, 17, d) * 0.02)
        self.blocks = nn.Sequential(*[EncoderBlock(d, 4, 0.1 * i) for i in range(3)])
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, classes)
        nn.init.zeros_(self.head.weight)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.norm(self.blocks(x))[:, 0])


def mixup(x, y, classes, alpha=0.4):
    lam = torch.distributions.Beta(alpha, alpha).sample()
    perm = torch.randperm(len(x))
    target = F.one_hot(y, classes).float()
    return lam * x + (1 - lam) * x[perm], lam * target + (1 - lam) * target[perm]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    classes = 5
    prototypes = torch.randn(classes, 3, 16, 16)
    model = ViT(args.size, classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    warm, tail = max(1, args.steps // 10), max(1, args.steps // 5)
    scheduler = SequentialLR(
        optimizer,
        schedulers=[
            LinearLR(optimizer, start_factor=0.1, total_iters=warm),
            CosineAnnealingLR(optimizer, T_max=max(1, args.steps - warm - tail), eta_min=1e-4),
            ConstantLR(optimizer, factor=0.05, total_iters=args.steps),
        ],
        milestones=[warm, args.steps - tail],
    )
    for step in range(args.steps):
        y = torch.randint(0, classes, (32,))
        x, target = mixup(prototypes[y] + 0.5 * torch.randn(32, 3, 16, 16), y, classes)
        loss = F.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 10 == 0:
            print(f"{step:3d} loss {loss.item():.4f} lr {optimizer.param_groups[0]['lr']:.2e}")


if __name__ == "__main__":
    main()
