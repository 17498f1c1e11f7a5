"""Pipeline parallelism with torch.distributed.pipelining: two stages, GPipe schedule, an optimizer for each stage."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


def stage_module(rank, d):
    if rank == 0:
        return nn.Sequential(nn.Linear(8, d), nn.ReLU(), nn.Linear(d, d), nn.ReLU())
    return nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 3))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=9)
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--size", type=int, default=24)
    ap.add_argument("--microbatches", type=int, default=4)
    a = ap.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(a.seed + rank)
    module = stage_module(rank, a.size)
    stage = PipelineStage(module, rank, world, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, a.microbatches, loss_fn=nn.CrossEntropyLoss())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)

    rng = torch.Generator().manual_seed(a.seed)
    w = torch.randn(8, 3, generator=rng)
    for step in range(a.steps):
        x = torch.randn(32, 8, generator=rng)
        y = (x @ w).argmax(1)
        optimizer.zero_grad()
        losses = []
        if rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=y, losses=losses)
        optimizer.step()
        if losses and step % 10 == 0:
            print(f"step {step} loss {torch.stack(losses).mean().item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
