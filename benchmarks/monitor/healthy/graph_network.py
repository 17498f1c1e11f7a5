"""Graph convolution on a citation-like graph: one full-batch graph, masks for train, validation and test nodes."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def stochastic_block_graph(nodes, classes, features, g):
    y = torch.randint(0, classes, (nodes,), generator=g)
    same = y[:, None] == y[None, :]
    p = torch.where(same, 0.08, 0.01)
    a = (torch.rand(nodes, nodes, generator=g) < p).triu(1)
    a = (a | a.T).float() + torch.eye(nodes)
    d = a.sum(1).rsqrt()
    norm = d[:, None] * a * d[None, :]
    x = torch.randn(nodes, features, generator=g)
    x[torch.arange(nodes), y] += 1.0
    return x, y, norm.to_sparse()


class GraphConvolution(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(i, o))
        self.bias = nn.Parameter(torch.zeros(o))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adj):
        return torch.sparse.mm(adj, x @ self.weight) + self.bias


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout):
        super().__init__()
        self.gc1, self.gc2 = GraphConvolution(nfeat, nhid), GraphConvolution(nhid, nclass)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(F.dropout(x, self.dropout, training=self.training), adj))
        return self.gc2(F.dropout(x, self.dropout, training=self.training), adj)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--size", type=int, default=16)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    x, y, adj = stochastic_block_graph(240, 4, 24, torch.Generator().manual_seed(args.seed))
    order = torch.randperm(240)
    train, val, test = order[:60], order[60:120], order[120:]
    model = GCN(24, args.size, 4, 0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    def accuracy(index):
        model.eval()
        with torch.no_grad():
            return (model(x, adj)[index].argmax(1) == y[index]).float().mean().item()

    for epoch in range(args.steps):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, adj)[train], y[train])
        loss.backward()
        optimizer.step()
        if epoch % 10 == 0:
            print(f"Epoch {epoch:03d} loss {loss.item():.4f} val {accuracy(val):.3f}")
    print(f"test accuracy {accuracy(test):.3f}")


if __name__ == "__main__":
    main()
