"""With accumulation, the teacher of self-distillation is averaged after every micro-batch instead of once a step."""
# source: https://github.com/lightly-ai/lightly-train/issues/968
# first effect: step 0
# names: teacher
# family: optimizer
# detectable: yes an average of weights moves again and again while the weights that it averages stand still

import argparse
import copy

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    student = nn.Sequential(nn.Linear(24, 64), nn.GELU(), nn.Linear(64, 32))
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.AdamW(student.parameters(), lr=2e-3)
    centre = torch.zeros(32)
    crops = torch.randn(512, 24)
    for step in range(args.steps):
        optimizer.zero_grad()
        for micro in range(4):
            picture = crops[torch.randint(0, 512, (8,))]
            with torch.no_grad():
                wanted = teacher(picture + 0.1 * torch.randn_like(picture))
            guess = student(picture + 0.2 * torch.randn_like(picture)) / 0.1
            target = ((wanted - centre) / 0.05).softmax(dim=1)
            loss = nn.functional.cross_entropy(guess, target)
            (loss / 4).backward()
            if not args.fixed or micro == 3:
                if micro == 3:
                    optimizer.step()
                with torch.no_grad():
                    centre.mul_(0.9).add_(wanted.mean(dim=0), alpha=0.1)
                    for p, q in zip(student.parameters(), teacher.parameters(), strict=False):
                        q.mul_(0.98).add_(p, alpha=0.02)
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
