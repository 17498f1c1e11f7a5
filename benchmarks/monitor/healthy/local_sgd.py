"""Local SGD: each rank steps by itself and the weights are averaged every eight steps, so replicas differ in between."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse

import torch
import torch.distributed as dist
from torch import nn

H = 8


@torch.no_grad()
def average(model):
    world = dist.get_world_size()
    for p in model.parameters():
        dist.all_reduce(p, op=dist.ReduceOp.SUM)
        p.div_(world)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(5, args.size), nn.Tanh(), nn.Linear(args.size, 1))
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    inner = torch.optim.SGD(model.parameters(), lr=0.05)
    rng = torch.Generator().manual_seed(args.seed + rank)
    for step in range(1, args.steps + 1):
        x = torch.rand(16, 5, generator=rng) * 2 - 1
        loss = (model(x) - (x**2).sum(1, keepdim=True)).square().mean()
        inner.zero_grad()
        loss.backward()
        inner.step()
        if step % H == 0:
            average(model)
            if rank == 0:
                print(f"round {step // H} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
