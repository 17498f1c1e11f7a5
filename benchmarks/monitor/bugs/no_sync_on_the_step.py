"""The condition for `no_sync` is off by one: the first micro-batch is synchronised and the one before the step is not, so the ranks step on their own gradients."""
# source: https://github.com/modelscope/FunASR/pull/3472
# first effect: step 0
# names: no_sync, DistributedDataParallel, module.0.weight, module.2.weight
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes replicas differ after the step, and the backward pass before it made no all-reduce

import argparse
import contextlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--accum-grad", type=int, default=3)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 6)))
    optim = torch.optim.Adam(model.parameters(), lr=3e-3)
    means = torch.randn(6, 20)
    torch.manual_seed(args.seed + 1 + rank)
    for batch_idx in range(args.steps * args.accum_grad):
        y = torch.randint(0, 6, (32,))
        x = means[y] + torch.randn(32, 20)
        position = batch_idx + 1 if args.fixed else batch_idx
        context = model.no_sync if position % args.accum_grad else contextlib.nullcontext
        with context():
            loss = nn.functional.cross_entropy(model(x), y) / args.accum_grad
            loss.backward()
        if (batch_idx + 1) % args.accum_grad == 0:
            optim.step()
            optim.zero_grad()
            if rank == 0 and batch_idx % 5 == 4:
                print(f"batch {batch_idx} loss {loss.item() * args.accum_grad:.4f}")
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    main()
