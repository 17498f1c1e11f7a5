"""The moving average kept in a dictionary takes the decay for the new weights: the shadow is the weights of the last step, and averages nothing."""
# source: https://docs.pytorch.org/docs/stable/optim.html
# first effect: step 0
# names: shadow
# family: optimizer
# detectable: yes what is called an average keeps a thousandth of itself with each step

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Average:
    def __init__(self, model, decay, fixed):
        self.decay, self.fixed = decay, fixed
        self.shadow = {name: one.detach().clone() for name, one in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, one in model.named_parameters():
            new = 1 - self.decay if self.fixed else self.decay
            self.shadow[name] = new * one + (1 - new) * self.shadow[name]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(7, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    average = Average(model, 0.999, args.fixed)
    w = torch.randn(7)
    for step in range(args.steps):
        x = torch.randn(64, 7)
        loss = F.huber_loss(model(x).squeeze(1), (x @ w).sin())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model)
        if step % 8 == 0:
            print(f"step {step}: {loss.item():.4f}")
    model.load_state_dict(average.shadow)


if __name__ == "__main__":
    main()
