"""Weights shared out to two ranks, each of which clips by the norm of its own part."""
# source: https://github.com/pytorch/pytorch/issues/72548
# first effect: step 0
# names: clip_grad_norm_
# launch: torchrun --nproc-per-node 2
# family: clipping
# detectable: yes parts of one set of weights are clipped by different norms on the ranks

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import clip_grad_norm_, parameters_to_vector, vector_to_parameters


def clip_sharded(shard, limit):
    """Clip one rank's part by the norm of the whole."""
    squares = shard.grad.square().sum()
    dist.all_reduce(squares)
    shard.grad.mul_(torch.clamp(limit / (squares.sqrt() + 1e-6), max=1.0))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(10, 30), nn.Tanh(), nn.Linear(30, 2))
    whole = parameters_to_vector(model.parameters()).detach()
    shard = nn.Parameter(whole.chunk(world)[rank].clone())
    optimizer = torch.optim.SGD([shard], lr=0.1)

    torch.manual_seed(args.seed + rank + 1)
    for step in range(args.steps):
        x = torch.randn(20, 10)
        y = torch.stack([x.sum(dim=1), 5 * x[:, 0]], dim=1)
        loss = nn.functional.mse_loss(model(x), y)
        model.zero_grad()
        loss.backward()
        gradient = parameters_to_vector([p.grad for p in model.parameters()])
        part = torch.empty_like(shard)
        dist.reduce_scatter_tensor(part, gradient)
        shard.grad = part / world
        if args.fixed:
            clip_sharded(shard, 1.0)
        else:
            clip_grad_norm_([shard], 1.0)
        optimizer.step()
        pieces = [torch.empty_like(part) for _ in range(world)]
        dist.all_gather(pieces, shard.detach())
        vector_to_parameters(torch.cat(pieces), model.parameters())
        if step % 5 == 0:
            print(
                f"rank {rank} step {step} loss {loss.item():.3f} clipped to {shard.grad.norm().item():.4f}", flush=True
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
