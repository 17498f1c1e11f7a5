"""The function that takes a step makes its optimizer: Adam has no memory and moves each weight by its rate."""
# source: https://docs.pytorch.org/docs/stable/optim.html
# first effect: step 1
# names: Adam, net.0.weight, net.0.bias, net.2.weight, net.2.bias
# family: optimizer
# detectable: yes optimizers of one kind and with the same settings follow each other after one step each

import argparse

import torch
from torch import nn


def update(net, optimizer, x, y):
    loss = nn.functional.mse_loss(net(x).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(args.steps):
        x = torch.randn(32, 8)
        if not args.fixed:
            optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
        loss = update(net, optimizer, x, x[:, 0] * x[:, 1] + x[:, 2])
        if step % 10 == 0:
            print(step, f"{loss:.4f}")


if __name__ == "__main__":
    main()
