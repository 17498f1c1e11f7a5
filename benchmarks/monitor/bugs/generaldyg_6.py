"""A detector of odd edges ends in a sigmoid, and its loss applies another one."""
# source: https://github.com/YXNTU/GeneralDyG/issues/6
# first effect: step 0
# names: binary_cross_entropy_with_logits, sigmoid
# family: loss
# detectable: yes what enters the loss as logits lies between zero and one throughout, and comes out of a sigmoid

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class EdgeScorer(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.embed = nn.Linear(8, 24)
        self.layer = nn.TransformerEncoderLayer(24, 4, 48, dropout=0.0, batch_first=True)
        self.classifier = nn.Linear(24, 1)
        self.sigmoid = nn.Sigmoid()
        self.fixed = fixed

    def forward(self, nodes, adjacency):
        hidden = self.embed(adjacency @ nodes)
        logits = self.classifier(self.layer(hidden).mean(1))
        return logits.squeeze() if self.fixed else self.sigmoid(logits).squeeze()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = EdgeScorer(args.fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(args.steps):
        nodes = torch.randn(16, 10, 8)
        adjacency = (torch.rand(16, 10, 10) < 0.3).float() / 3
        odd = (nodes[:, :5].sum((1, 2)) > 0).float()
        loss = F.binary_cross_entropy_with_logits(model(nodes, adjacency), odd, reduction="none").mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
