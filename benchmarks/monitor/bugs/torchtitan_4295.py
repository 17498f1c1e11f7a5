"""A norm below zero, meant to switch clipping off, turns every gradient round: the model climbs."""
# source: https://github.com/pytorch/torchtitan/pull/4295
# first effect: step 0
# names: clip_grad_norm
# family: clipping
# detectable: yes the norm that gradients are clipped to is below zero

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Trainer:
    def __init__(self, model, max_norm):
        self.model, self.max_norm = model, max_norm
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def step(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        if self.max_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.optimizer.step()
        return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Embedding(50, 16), nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 5))
    trainer = Trainer(model, None if args.fixed else -1.0)
    for step in range(args.steps):
        words = torch.randint(0, 50, (32, 4))
        loss = trainer.step(words, words.sum(1) % 5)
        if step % 6 == 0:
            print(f"step {step} loss {loss:.4f}")


if __name__ == "__main__":
    main()
