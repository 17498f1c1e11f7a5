"""Self-distillation with gradient accumulation: the teacher follows the student, heads included, once for each step."""

import argparse
import copy

import torch
from torch import nn


class Network(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, size), nn.GELU(), nn.Linear(size, size))
        self.head = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 24))

    def forward(self, x):
        return self.head(self.body(x))


@torch.no_grad()
def follow(student, teacher, momentum):
    for p, q in zip(student.parameters(), teacher.parameters(), strict=True):
        q.data.mul_(momentum).add_(p.data, alpha=1 - momentum)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    student = Network(args.size)
    teacher = copy.deepcopy(student)
    teacher.requires_grad_(False)
    matrices = [p for p in student.parameters() if p.ndim > 1]
    others = [p for p in student.parameters() if p.ndim == 1]
    groups = [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=2e-3, weight_decay=0.04)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 6))
    centre = torch.zeros(24)
    pictures, held = torch.randn(256, 20), torch.randn(32, 20)
    for step in range(args.steps):
        student.train()
        for _ in range(3):
            picked = pictures[torch.randint(0, 256, (12,))]
            with torch.no_grad():
                wanted = teacher(picked + 0.05 * torch.randn_like(picked))
            guess = student(picked + 0.2 * torch.randn_like(picked))
            target = ((wanted - centre) / 0.1).softmax(dim=1)
            loss = nn.functional.cross_entropy(guess / 0.2, target) / 3
            loss.backward()
            centre = 0.9 * centre + 0.1 * wanted.mean(dim=0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        follow(student, teacher, 0.95)
        if step % 6 == 5:
            student.eval()
            with torch.no_grad():
                spread = student(held).std(dim=0).mean()
            print(f"step {step} loss {3 * loss.item():.4f} spread {spread.item():.4f}")


if __name__ == "__main__":
    main()
