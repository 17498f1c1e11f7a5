"""The loss of a micro-batch is not divided by their number: the gradients, and with them the effective rate, are larger by as much."""
# source: https://github.com/agokrani/distillKitPlus/issues/5
# first effect: step 0
# names: backward
# family: gradients
# detectable: no a sum over micro-batches is as well-formed as their mean, and some programs want it

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def mlp(width):
    return nn.Sequential(nn.Linear(12, width), nn.ReLU(), nn.Linear(width, 6))


def distillation_loss(student, teacher, temperature=2.0):
    log_p = F.log_softmax(student / temperature, dim=-1)
    return F.kl_div(log_p, F.softmax(teacher / temperature, dim=-1), reduction="batchmean") * temperature**2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--gradient-accumulation-steps", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    teacher, student = mlp(64), mlp(16)
    teacher.requires_grad_(False)
    with torch.no_grad():
        teacher[2].weight.mul_(8)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.02, momentum=0.9)
    for step in range(args.steps):
        total = 0.0
        for _ in range(args.gradient_accumulation_steps):
            x = torch.randn(16, 12)
            loss = distillation_loss(student(x), teacher(x))
            if args.fixed:
                loss = loss / args.gradient_accumulation_steps
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        if step % 5 == 0:
            print(f"step {step} loss {total:.4f}")


if __name__ == "__main__":
    main()
