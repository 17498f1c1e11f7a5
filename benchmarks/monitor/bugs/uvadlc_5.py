"""Nodes of a batch of graphs are numbered by steps of the batch size, not of the number of nodes: edges join other graphs' nodes."""
# source: https://github.com/phlippe/uvadlc_notebooks/issues/5
# first effect: step 0
# names: GraphAttention
# family: data
# detectable: no which nodes an edge joins is the program's own arithmetic, and the numbers are in range

import argparse

import torch
from torch import nn


class GraphAttention(nn.Module):
    def __init__(self, width, fixed):
        super().__init__()
        self.project = nn.Linear(width, width)
        self.weigh = nn.Linear(2 * width, 1)
        self.fixed = fixed

    def forward(self, nodes, adjacency):
        batch, count, width = nodes.shape
        hidden = self.project(nodes)
        edges = adjacency.nonzero()
        stride = count if self.fixed else batch
        flat = hidden.reshape(batch * count, width)
        ends = torch.cat([flat[edges[:, 0] * stride + edges[:, 1]], flat[edges[:, 0] * stride + edges[:, 2]]], 1)
        scores = torch.full(adjacency.shape, -1e9)
        scores[adjacency > 0] = nn.functional.leaky_relu(self.weigh(ends)).squeeze(1)
        return nodes + torch.softmax(scores, 2) @ hidden


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    first, second = GraphAttention(16, args.fixed), GraphAttention(16, args.fixed)
    head = nn.Linear(16, 1)
    model = nn.ModuleList([first, second, head])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(args.steps):
        nodes = torch.randn(8, 12, 16)
        adjacency = ((torch.rand(8, 12, 12) < 0.3) | torch.eye(12).bool()).float()
        wanted = (adjacency.sum(2) * nodes[:, :, 0]).mean(1, keepdim=True)
        loss = nn.functional.mse_loss(head(second(first(nodes, adjacency), adjacency).mean(1)), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
