"""A trainer for graphs that clips the gradients when the optimizer has already used them."""
# source: https://github.com/awslabs/graphstorm/issues/1366
# first effect: step 0
# names: clip_grad_norm_
# family: clipping
# detectable: yes the norm is clipped after the step, and the step has used a larger one

import argparse

import torch as th
from torch import nn


class RelGraphConv(nn.Module):
    """Mean of the neighbours over each kind of edge, each with weights of its own."""

    def __init__(self, inputs, outputs, relations):
        super().__init__()
        self.relations = nn.ModuleList(nn.Linear(inputs, outputs, bias=False) for _ in range(relations))
        self.loop = nn.Linear(inputs, outputs)

    def forward(self, adjacencies, h):
        out = self.loop(h)
        for weight, adjacency in zip(self.relations, adjacencies, strict=True):
            out = out + adjacency @ weight(h)
        return out


class RGCN(nn.Module):
    def __init__(self, features, hidden, classes, relations):
        super().__init__()
        self.first = RelGraphConv(features, hidden, relations)
        self.second = RelGraphConv(hidden, classes, relations)

    def forward(self, adjacencies, x):
        return self.second(adjacencies, th.relu(self.first(adjacencies, x)))


def graph(nodes, relations, generator):
    x = th.randn(nodes, 16, generator=generator) * 2
    adjacencies = (th.rand(relations, nodes, nodes, generator=generator) < 0.05).float()
    adjacencies = adjacencies / adjacencies.sum(-1, keepdim=True).clamp(min=1)
    return adjacencies, x, (adjacencies[0] @ x)[:, :4].argmax(1)


def fit(model, adjacencies, x, labels, train_idx, steps, max_grad_norm, clip_first):
    optimizer = th.optim.Adam(model.parameters(), lr=0.02)
    step = 0
    while step < steps:
        for seeds in train_idx[th.randperm(len(train_idx))].split(50):
            model.train()
            loss = 4 * nn.functional.cross_entropy(model(adjacencies, x)[seeds], labels[seeds])
            optimizer.zero_grad()
            loss.backward()
            if clip_first:
                th.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
            optimizer.step()
            if not clip_first:
                th.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
            step += 1
            if step % 10 == 0:
                print(f"Part 0 | Iteration {step} | Train loss: {loss.item():.4f}")
            if step == steps:
                return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    th.manual_seed(args.seed)
    adjacencies, x, labels = graph(250, 2, th.Generator().manual_seed(args.seed))
    fit(RGCN(16, 24, 4, 2), adjacencies, x, labels, th.arange(200), args.steps, 0.5, args.fixed)


if __name__ == "__main__":
    main()
