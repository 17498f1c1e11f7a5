"""Distillation with accumulation: the masked mean of each micro-batch has the same weight, however many answers it holds."""
# source: https://github.com/MakazhanAlpamys/Soup/issues/932
# first effect: step 0
# names: backward, loss
# family: loss
# detectable: yes the tokens of one step count differently by the micro-batch that they lie in

import argparse

import torch
from torch import nn


def network(width):
    return nn.Sequential(nn.Embedding(30, width), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 30))


def answers(batch, length, least):
    """Where the answers lie: some rows are nearly all prompt."""
    starts = torch.randint(0, length - least, (batch, 1))
    return torch.arange(length)[None] >= starts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--accumulate", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    teacher, student = network(48), network(12)
    teacher.requires_grad_(False)
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
    for step in range(args.steps):
        micro = [(torch.randint(0, 30, (1, 32)), answers(1, 32, 2)) for _ in range(args.accumulate)]
        wanted = sum(mask.sum() for _, mask in micro)
        optimizer.zero_grad()
        shown = 0.0
        for tokens, mask in micro:
            with torch.no_grad():
                labels = teacher(tokens).argmax(dim=-1)
            per_token = nn.functional.cross_entropy(student(tokens).transpose(1, 2), labels, reduction="none")
            loss = (per_token * mask).sum() / mask.sum()
            loss = loss * mask.sum() / wanted if args.fixed else loss / args.accumulate
            loss.backward()
            shown += loss.item()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {shown:.4f}")


if __name__ == "__main__":
    main()
