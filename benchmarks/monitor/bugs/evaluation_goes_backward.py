"""Training and validation share one function that goes backward; the gradients of the validation go into the next step."""
# source: https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval
# first effect: step 10
# names: backward, optimizer0
# family: gradients
# detectable: yes gradients of passes in evaluation mode are still there when the training goes on, and a step uses them

import argparse

import torch
from torch import nn


def batches(count):
    for _ in range(count):
        x = torch.randn(32, 12)
        yield x, (x[:, 0] * x[:, 1] > 0).long()


class Fitter:
    def __init__(self, fixed):
        self.fixed = fixed
        self.model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 2))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-3)

    def loss_of(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        return loss.item()

    def epoch(self, count):
        self.model.train()
        total = 0.0
        for x, y in batches(count):
            total += self.loss_of(x, y)
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.model.eval()
        held_out = sum(self.loss_of(x, y) for x, y in batches(3))
        if self.fixed:
            self.optimizer.zero_grad()
        return total / count, held_out / 3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    fitter = Fitter(args.fixed)
    for epoch in range(args.steps // 10):
        loss, held_out = fitter.epoch(10)
        print(epoch, f"{loss:.4f} {held_out:.4f}")


if __name__ == "__main__":
    main()
