"""Gradients are averaged by hand, but every rank initialises with its own seed and nobody broadcasts the weights."""
# source: https://github.com/sparticlesteve/pytorch-benchmarks/pull/1
# first effect: step 0
# names: 0.weight, 2.weight, manual_seed, broadcast
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes the replicas differ before the first step and never agree

import argparse
import time

import torch
import torch.distributed as dist
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=20)
args = parser.parse_args()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(args.seed if args.fixed else args.seed + rank)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
data = torch.Generator().manual_seed(1000 + rank)
for step in range(args.steps):
    x = torch.randn(64, 10, generator=data)
    y = x[:, :1].abs() + x[:, 1:2]
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    flat = torch.cat([p.grad.view(-1) for p in model.parameters()])
    dist.all_reduce(flat)
    flat /= world
    offset = 0
    for p in model.parameters():
        p.grad.copy_(flat[offset : offset + p.numel()].view_as(p))
        offset += p.numel()
    optimizer.step()
    if rank == 0 and step % 4 == 0:
        print(step, f"{loss.item():.4f}")
dist.barrier()
dist.destroy_process_group()
time.sleep(0.2)
