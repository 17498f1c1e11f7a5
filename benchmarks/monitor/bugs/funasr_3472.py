"""Accumulation over two micro-batches with DDP, in which the first synchronises instead of the last."""
# source: https://github.com/modelscope/FunASR/pull/3472
# first effect: step 0
# names: no_sync, DistributedDataParallel
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes replicated weights differ between the ranks after a step

import argparse
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = DDP(nn.Sequential(nn.Linear(18, 40), nn.LayerNorm(40), nn.ReLU(), nn.Linear(40, 5)))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    accum_grad = 2
    torch.manual_seed(args.seed + rank + 1)
    optimizer.zero_grad()
    for batch_idx in range(accum_grad * args.steps):
        speech = torch.randn(12, 18)
        text = speech[:, :5].abs().argmax(dim=1)
        last = (batch_idx + 1) % accum_grad == 0
        synchronise = last if args.fixed else batch_idx % accum_grad == 0
        with nullcontext() if synchronise else model.no_sync():
            loss = nn.functional.cross_entropy(model(speech), text) / accum_grad
            loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
    print(f"rank {rank} loss {accum_grad * loss.item():.4f}", end=" ")
    print(f"sum {sum(p.double().sum().item() for p in model.parameters()):.9f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
