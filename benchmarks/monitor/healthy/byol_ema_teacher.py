"""BYOL: an online network predicts what a slowly moving copy of itself says of another view; the copy is never stepped."""

import argparse
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F


class MLPHead(nn.Sequential):
    def __init__(self, i, h, o):
        super().__init__(nn.Linear(i, h), nn.BatchNorm1d(h), nn.ReLU(inplace=True), nn.Linear(h, o))


class BYOL(nn.Module):
    def __init__(self, dim_in: int, width: int):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(dim_in, width), nn.ReLU(), MLPHead(width, width, 16))
        self.predictor = MLPHead(16, 32, 16)
        self.target = copy.deepcopy(self.online)
        for p in self.target.parameters():
            p.requires_grad = False

    @torch.no_grad()
    def update_target(self, tau: float):
        for o, t in zip(self.online.parameters(), self.target.parameters()):
            t.data = t.data * tau + o.data * (1.0 - tau)

    @staticmethod
    def regression(p, z):
        return 2 - 2 * F.cosine_similarity(p, z.detach(), dim=-1)

    def forward(self, v1, v2):
        p1, p2 = self.predictor(self.online(v1)), self.predictor(self.online(v2))
        with torch.no_grad():
            z1, z2 = self.target(v1), self.target(v2)
        return (self.regression(p1, z2) + self.regression(p2, z1)).mean()


def views(x, gen):
    for _ in range(2):
        keep = torch.rand(x.shape, generator=gen) > 0.2
        yield x * keep + 0.1 * torch.randn(x.shape, generator=gen)


args = argparse.ArgumentParser()
args.add_argument("--seed", type=int, default=21)
args.add_argument("--steps", type=int, default=60)
args.add_argument("--size", type=int, default=64)
args = args.parse_args()

torch.manual_seed(args.seed)
gen = torch.Generator().manual_seed(args.seed)
centres = torch.randn(12, 40, generator=gen)
data = centres[torch.randint(0, 12, (600,), generator=gen)] + 0.3 * torch.randn(600, 40, generator=gen)

learner = BYOL(40, args.size)
opt = torch.optim.Adam([p for p in learner.parameters() if p.requires_grad], lr=3e-3)

for step in range(args.steps):
    batch = data[torch.randint(0, 600, (48,), generator=gen)]
    v1, v2 = views(batch, gen)
    loss = learner(v1, v2)
    opt.zero_grad()
    loss.backward()
    opt.step()
    tau = 1 - (1 - 0.97) * (math.cos(math.pi * step / args.steps) + 1) / 2
    learner.update_target(tau)
    if (step + 1) % 15 == 0:
        print(f"{step + 1:3d}/{args.steps} byol {loss.item():.4f} tau {tau:.4f}")
