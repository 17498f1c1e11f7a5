"""Uneven inputs: rank 1 has fewer batches than rank 0, and Join lets it shadow the collectives until all are done."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP


def shard(rank, seed, count):
    g = torch.Generator().manual_seed(seed + rank)
    for _ in range(count):
        x = torch.randn(8, 6, generator=g)
        yield x, x.abs().sum(1, keepdim=True)


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=10)
parser.add_argument("--steps", type=int, default=40, help="of the longest rank")
parser.add_argument("--size", type=int, default=24)
args = parser.parse_args()

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(args.seed)
model = DDP(nn.Sequential(nn.Linear(6, args.size), nn.ReLU(), nn.Linear(args.size, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
mine = args.steps - 3 * rank
count = 0
with Join([model]):
    for x, y in shard(rank, args.seed, mine):
        optimizer.zero_grad()
        loss = nn.functional.l1_loss(model(x), y)
        loss.backward()
        optimizer.step()
        count += 1
        if count % 10 == 0:
            print(f"rank {rank} batch {count} of {mine} loss {loss.item():.4f}", flush=True)
print(f"rank {rank} joined after {count} batches", flush=True)
dist.destroy_process_group()
