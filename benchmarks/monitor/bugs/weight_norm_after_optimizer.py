"""Weight normalisation is put on after the optimizer was made: it goes on holding weights that are no longer used."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrizations.weight_norm.html
# first effect: step 0
# names: original0, original1, net.0, net.2
# family: optimizer
# detectable: yes parameters that get gradients belong to no optimizer, and what the optimizer holds gets none

import argparse

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class TemporalNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(2, 12, 3, padding=1), nn.ReLU(), nn.Conv1d(12, 12, 3, padding=1), nn.ReLU())
        self.out = nn.Linear(12, 1)

    def forward(self, x):
        return self.out(self.net(x).mean(2)).squeeze(1)


def normalise(model):
    for index in (0, 2):
        weight_norm(model.net[index])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = TemporalNet()
    if args.fixed:
        normalise(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    if not args.fixed:
        normalise(model)
    for step in range(args.steps):
        x = torch.randn(16, 2, 20)
        y = (x[:, 0] * x[:, 1]).mean(1) * 5
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
