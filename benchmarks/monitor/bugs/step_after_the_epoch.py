"""`optimizer.step()` slipped out of the inner loop: only the gradients of an epoch's last batch are ever used."""
# source: https://docs.pytorch.org/tutorials/beginner/basics/optimization_tutorial.html
# first effect: step 0
# names: zero_grad
# family: gradients
# detectable: yes gradients are cleared after most passes before any step has used them

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh())
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(-1)


def train_epoch(model, loader, optimizer, fixed):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        if fixed:
            optimizer.step()
        total += loss.item()
    if not fixed:
        optimizer.step()
    return total / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(192, 6)
    loader = DataLoader(TensorDataset(x, x.sin().sum(1)), batch_size=32, shuffle=True)
    model = Regressor()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(args.steps):
        print(epoch, f"{train_epoch(model, loader, optimizer, args.fixed):.4f}")


if __name__ == "__main__":
    main()
