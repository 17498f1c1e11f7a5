"""All weights are set to one number at the start: the units of a layer are copies of each other and stay so."""
# source: https://www.deeplearningbook.org/contents/optimization.html
# first effect: step 0
# names: 0.weight, 2.weight
# family: init
# detectable: yes all rows of a weight are the same and stay so while steps change them

import argparse

import torch
from torch import nn


def start(module, fixed):
    if isinstance(module, nn.Linear):
        if fixed:
            nn.init.xavier_uniform_(module.weight)
        else:
            nn.init.constant_(module.weight, 0.05)
        nn.init.zeros_(module.bias)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(9, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
    model.apply(lambda module: start(module, args.fixed))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(args.steps):
        x = torch.rand(64, 9)
        y = x[:, 0] * x[:, 1] - x[:, 2]
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, f"{loss.item():.5f}")


if __name__ == "__main__":
    main()
