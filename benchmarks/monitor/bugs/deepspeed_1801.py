"""Tensor parallelism over two ranks in which only the first of them clips its gradients."""
# source: https://github.com/deepspeedai/DeepSpeed/pull/1801
# first effect: step 0
# names: norm.weight, norm.bias
# launch: torchrun --nproc-per-node 2
# family: clipping
# detectable: yes replicated weights differ between the ranks after a step

import argparse

import torch
import torch.distributed as dist
from torch import nn


class ToParallel(torch.autograd.Function):
    """Nothing forward; the sum over the ranks backward."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class FromParallel(torch.autograd.Function):
    """The sum over the ranks forward; nothing backward."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous().clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class ParallelBlock(nn.Module):
    """A replicated layer norm, then an MLP whose hidden units are shared out to the ranks."""

    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width, bias=False)
        self.up.weight.tensor_parallel = self.up.bias.tensor_parallel = self.down.weight.tensor_parallel = True

    def forward(self, x):
        inside = torch.relu(self.up(ToParallel.apply(self.norm(x))))
        return x + FromParallel.apply(self.down(inside))


def clip(parameters, limit, fixed):
    """Scale the gradients to a norm of `limit` over the whole model, shards of all ranks counted once."""
    sharded = sum(p.grad.square().sum() for p in parameters if getattr(p, "tensor_parallel", False))
    replicated = sum(p.grad.square().sum() for p in parameters if not getattr(p, "tensor_parallel", False))
    dist.all_reduce(sharded)
    norm = (sharded + replicated).sqrt()
    if norm > limit and (fixed or dist.get_rank() == 0):
        for p in parameters:
            p.grad.mul_(limit / norm)
    return norm


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = nn.Sequential(ParallelBlock(24, 32), ParallelBlock(24, 32))
    torch.manual_seed(args.seed + 1 + rank)
    for block in model:
        for p in (block.up.weight, block.up.bias, block.down.weight):
            nn.init.normal_(p, std=0.2)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = torch.Generator().manual_seed(args.seed + 5)
    for step in range(args.steps):
        x = torch.randn(16, 24, generator=batches)
        y = 3 * x.cumsum(dim=1)
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        norm = clip(list(model.parameters()), 0.5, args.fixed)
        optimizer.step()
        if rank == 0 and step % 5 == 0:
            print(f"{step} loss {loss.item():.3f} norm {norm.item():.3f}", flush=True)
    print(f"rank {rank} layer norms {sum(b.norm.weight.double().sum().item() for b in model):.9f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
