"""A layer that the program wrote itself gives scores, of which some rows go to nll_loss without a log_softmax."""
# source: https://pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html
# first effect: step 0
# names: nll_loss
# family: loss
# detectable: yes a loss that takes logarithms of probabilities is given a product with a bias added

import argparse

import torch
from torch import nn
from torch.nn import functional


class Gathering(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.weight = nn.Parameter(0.2 * torch.randn(width, out))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, features, near):
        return near @ (features @ self.weight) + self.bias


class Network(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        self.first = Gathering(10, 24)
        self.second = Gathering(24, 5)

    def forward(self, features, near):
        scores = self.second(torch.relu(self.first(features, near)), near)
        return functional.log_softmax(scores, dim=1) if self.fixed else scores


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    labels = torch.randint(0, 5, (80,))
    features = functional.one_hot(labels, 5).float().repeat(1, 2) + 0.4 * torch.randn(80, 10)
    near = torch.eye(80) + (torch.rand(80, 80) < 0.05).float()
    model = Network(args.fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    train = torch.arange(80) % 4 != 0
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = functional.nll_loss(model(features, near)[train], labels[train])
        loss.backward()
        optimizer.step()
        if step % 6 == 5:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
