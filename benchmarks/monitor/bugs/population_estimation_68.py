"""A map of people per cell ends in a ReLU that begins below zero everywhere: nobody is ever predicted, and nothing is learnt."""
# source: https://github.com/jvargasmu/population_estimation/issues/68
# first effect: step 0
# names: model, scale
# family: init
# detectable: yes the model gives the same for all samples of a batch, and no gradient comes back

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Scale(nn.Module):
    """How many people live in a building, by its features; multiplied by the buildings of a cell."""

    def __init__(self, width, fixed):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(7, width), nn.LeakyReLU(), nn.Linear(width, width), nn.LeakyReLU())
        self.out = nn.Linear(width, 1)
        nn.init.constant_(self.out.bias, -2.0)
        self.last = nn.Softplus() if fixed else nn.ReLU()

    def forward(self, features):
        return self.last(self.out(self.body(features)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Scale(24, args.fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-5)
    rule = torch.rand(7, 1)
    for step in range(args.steps):
        features = torch.rand(64, 7)
        buildings = torch.randint(1, 9, (64, 1)).float()
        people = buildings * (features @ rule)
        loss = F.l1_loss(buildings * model(features), people)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
