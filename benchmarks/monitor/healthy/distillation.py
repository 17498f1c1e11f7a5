"""Knowledge distillation: a teacher is trained first, then frozen in eval mode, and a small student learns from its logits."""

from argparse import ArgumentParser

import torch
from torch import nn
from torch.nn import functional as F


def mlp(*sizes, dropout=0.0):
    layers = []
    for a, b in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class Source:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.w = torch.randn(14, 5, generator=self.g)

    def draw(self, n=48):
        x = torch.randn(n, 14, generator=self.g)
        return x, (x @ self.w + 0.5 * torch.sin(3 * x[:, :5])).argmax(1)


def train_teacher(teacher, source, steps):
    opt = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    teacher.train()
    for i in range(steps):
        x, y = source.draw()
        loss = F.cross_entropy(teacher(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0:
            print(f"teacher {i} {loss.item():.4f}")
    return teacher.eval().requires_grad_(False)


def distill(teacher, student, source, steps, T=3.0, alpha=0.7):
    opt = torch.optim.Adam(student.parameters(), lr=5e-3)
    student.train()
    for i in range(steps):
        x, y = source.draw()
        with torch.no_grad():
            soft = F.softmax(teacher(x) / T, dim=1)
        out = student(x)
        kd = F.kl_div(F.log_softmax(out / T, dim=1), soft, reduction="batchmean") * T * T
        loss = alpha * kd + (1 - alpha) * F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0:
            print(f"student {i} kd {kd.item():.4f} total {loss.item():.4f}")
    return student


if __name__ == "__main__":
    ap = ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--size", type=int, default=64)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    source = Source(a.seed)
    teacher = train_teacher(mlp(14, a.size, a.size, 5, dropout=0.1), source, 40)
    student = distill(teacher, mlp(14, a.size // 4, 5), source, a.steps).eval()
    x, y = source.draw(400)
    with torch.no_grad():
        for name, net in (("teacher", teacher), ("student", student)):
            print(name, (net(x).argmax(1) == y).float().mean().item())
