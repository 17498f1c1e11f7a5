"""The divergence from the teacher is taken of the student's probabilities, where their logarithms belong."""
# source: https://github.com/microsoft/ProDA/issues/20
# first effect: step 0
# names: kl_div
# family: loss
# detectable: yes what kl_div is given as logarithms of probabilities is above zero everywhere

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def network(width):
    return nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.Linear(width, 6))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    teacher, student = network(96), network(24)
    teacher.requires_grad_(False).eval()
    truth = torch.randn(20, 6)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
    for step in range(args.steps):
        x = torch.randn(32, 20)
        y = (x @ truth).argmax(1)
        with torch.no_grad():
            soft = F.softmax(teacher(x), dim=1)
        out = student(x)
        guess = F.log_softmax(out, dim=1) if args.fixed else F.softmax(out, dim=1)
        loss = F.cross_entropy(out, y) + 0.5 * F.kl_div(guess, soft, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
