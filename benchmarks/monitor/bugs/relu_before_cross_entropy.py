"""The last layer of a classifier has a ReLU: no score can fall below zero, and dead ones get no gradient."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
# first effect: step 0
# names: cross_entropy, ReLU, relu
# family: loss
# detectable: yes of what the loss takes for scores none is negative and many are exactly zero

import argparse
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class MLP(nn.Module):
    def __init__(self, sizes, fixed):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.fixed = fixed

    def forward(self, x):
        for index, layer in enumerate(self.layers):
            x = layer(x)
            if index < len(self.layers) - 1 or not self.fixed:
                x = F.relu(x)
        return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(320, 15)
    loader = DataLoader(TensorDataset(x, (x @ torch.randn(15, 6)).argmax(1)), batch_size=32, shuffle=True)
    model = MLP([15, 48, 48, 6], args.fixed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(args.steps // 10):
        for features, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(features), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
