"""Tensor parallelism by hand: the gradient of what goes into a divided layer is not summed over the ranks."""
# source: https://arxiv.org/abs/1909.08053
# launch: torchrun --nproc-per-node 2
# first effect: step 0
# names: model.emb.weight, emb
# family: replicas
# detectable: yes ranks with one loss and one input follow different gradients of an embedding that all of them hold

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class CopyToRegion(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous()
        dist.all_reduce(g)
        return g


class ReduceFromRegion(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


class ParallelMLP(nn.Module):
    def __init__(self, d, hidden, fixed):
        super().__init__()
        self.fixed = fixed
        world, rank = dist.get_world_size(), dist.get_rank()
        full1, full2 = torch.randn(hidden, d) / d**0.5, torch.randn(d, hidden) / hidden**0.5
        self.w1 = nn.Parameter(full1.chunk(world, 0)[rank].clone())
        self.w2 = nn.Parameter(full2.chunk(world, 1)[rank].clone())

    def forward(self, x):
        if self.fixed:
            x = CopyToRegion.apply(x)
        return ReduceFromRegion.apply(F.gelu(x @ self.w1.T) @ self.w2.T)


class Model(nn.Module):
    def __init__(self, vocab, d, layers, fixed):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(layers))
        self.mlps = nn.ModuleList(ParallelMLP(d, 4 * d, fixed) for _ in range(layers))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.emb(ids)
        x = x + torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        for n, m in zip(self.norms, self.mlps, strict=True):
            x = x + m(n(x))
        return self.head(x)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--fixed", action="store_true")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=25)
    args = p.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    model = Model(40, 32, 2, args.fixed)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(1)  # the same data on every rank of the group
    for step in range(args.steps):
        ids = torch.cumsum(torch.randint(1, 3, (16, 17), generator=g), 1) % 40
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 0 and dist.get_rank() == 0:
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
