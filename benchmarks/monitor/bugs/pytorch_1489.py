"""A run resumed by a program that hands its layers to the optimizer in another order, and gives each the other's moments."""
# source: https://github.com/pytorch/pytorch/issues/1489
# first effect: step 15
# names: left.weight, right.weight, load_state_dict
# family: checkpoint
# detectable: yes the optimizer's state of a weight after the load is not the state saved for that weight

import argparse
import os
import tempfile

import torch
from torch import nn


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(20, 20)
        self.right = nn.Linear(20, 20)

    def forward(self, a, b):
        return (torch.tanh(self.left(a)) * torch.tanh(self.right(b))).sum(dim=1)


def train(model, optimizer, first, last):
    for step in range(first, last):
        a, b = torch.randn(32, 20), 0.01 * torch.randn(32, 20)
        loss = nn.functional.mse_loss(model(a, b), (a * b).sum(dim=1) * 5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            print(f"step {step} loss {loss.item():.6f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    half = args.steps // 2

    torch.manual_seed(args.seed)
    model = TwoTowers()
    optimizer = torch.optim.Adam([*model.left.parameters(), *model.right.parameters()], lr=3e-3)
    train(model, optimizer, 0, half)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        saved = torch.load(path)
    model = TwoTowers()
    model.load_state_dict(saved["model"])
    towers = (model.left, model.right) if args.fixed else (model.right, model.left)
    optimizer = torch.optim.Adam([p for tower in towers for p in tower.parameters()], lr=3e-3)
    optimizer.load_state_dict(saved["optimizer"])
    print(f"second moment of left.weight {optimizer.state[model.left.weight]['exp_avg_sq'].mean().item():.3e}")
    train(model, optimizer, half, args.steps)


if __name__ == "__main__":
    main()
