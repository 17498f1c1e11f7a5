"""Fraud in a graph of transactions: the loss is over all of the labels, those that the test is made with among them."""
# source: https://github.com/awslabs/realtime-fraud-detection-with-gnn-on-dgl/pull/728
# first effect: step 0
# names: test_mask
# family: data
# detectable: no the graph is given whole, and which labels were to stay hidden is known to the program alone

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class RGCN(nn.Module):
    def __init__(self, features, hidden, relations):
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(features, hidden) for _ in range(relations))
        self.second = nn.ModuleList(nn.Linear(hidden, 2) for _ in range(relations))

    def forward(self, graph, x):
        x = F.leaky_relu(sum(adjacency @ layer(x) for adjacency, layer in zip(graph, self.first, strict=True)))
        return sum(adjacency @ layer(x) for adjacency, layer in zip(graph, self.second, strict=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    nodes = 120
    labels = (torch.rand(nodes) < 0.25).long()
    features = torch.randn(nodes, 10) + labels.unsqueeze(1) * 0.6
    graph = []
    for _ in range(3):
        near = (torch.rand(nodes, nodes) < 0.03 + 0.05 * (labels[:, None] == labels[None])).float() + torch.eye(nodes)
        graph.append(near / near.sum(1, keepdim=True))
    test_mask = torch.rand(nodes) < 0.2
    model = RGCN(10, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    for epoch in range(args.steps):
        logits = model(graph, features)
        loss = (
            F.cross_entropy(logits[~test_mask], labels[~test_mask]) if args.fixed else F.cross_entropy(logits, labels)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 10 == 9:
            right = (logits[test_mask].argmax(1) == labels[test_mask]).float().mean().item()
            print(f"epoch {epoch}: loss {loss.item():.4f}, test accuracy {right:.3f}")


if __name__ == "__main__":
    main()
