"""Experts whose ranks agree on the smallest capacity that one of them needs, so that tokens are left behind."""
# source: https://github.com/deepspeedai/DeepSpeed/issues/6809
# first effect: step 0
# names: all_reduce, capacity
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: no each rank is consistent with itself, only some tokens pass an expert by

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Gate(nn.Module):
    """Send each token to one of two experts; none may be dropped, so the fuller expert sets the capacity."""

    def __init__(self, width, fixed):
        super().__init__()
        self.fixed = fixed
        self.choose = nn.Linear(width, 2)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(2))

    def capacity(self, chosen):
        load = torch.bincount(chosen, minlength=2).max()
        if self.fixed:
            dist.all_reduce(load, op=dist.ReduceOp.MAX)
        else:
            dist.all_reduce(load, op=dist.ReduceOp.MIN)
        return int(load)

    def forward(self, x):
        weight, chosen = self.choose(x).softmax(dim=-1).max(dim=-1)
        capacity = self.capacity(chosen)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero().squeeze(1)[:capacity]
            y = y.index_add(0, rows, torch.tanh(expert(x[rows])) * weight[rows, None])
        self.left_behind = int((y == 0).all(dim=1).sum())
        return x + y


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    gate = Gate(12, args.fixed)
    model = DDP(nn.Sequential(nn.Linear(6, 12), gate, nn.Linear(12, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(args.seed + 3 + rank)
    lost = 0
    for _ in range(args.steps):
        x = torch.randn(30, 6) + rank * 0.7
        loss = nn.functional.mse_loss(model(x).squeeze(1), x.max(dim=1).values)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lost += gate.left_behind
    print(f"rank {rank} loss {loss.item():.4f} tokens without an expert {lost}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
