"""A prepared scheduler advances as many times per step as there are ranks, although its length counts steps of the optimizer: the rate is zero half way."""
# source: https://github.com/huggingface/accelerate/issues/2142
# first effect: step 1
# names: LambdaLR, AdamW
# launch: torchrun --nproc-per-node 2
# family: schedule
# detectable: yes the scheduler steps twice for each step of the optimizer

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class PreparedScheduler:
    def __init__(self, scheduler, times):
        self.scheduler, self.times = scheduler, times

    def step(self):
        for _ in range(self.times):
            self.scheduler.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    linear = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: max(0.0, 1 - s / args.steps))
    lr_scheduler = PreparedScheduler(linear, 1 if args.fixed else dist.get_world_size())
    torch.manual_seed(args.seed + rank)
    for step in range(args.steps):
        x = torch.randn(48, 12)
        y = (x[:, 0] > x[:, 1]).long()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lr_scheduler.step()
        if rank == 0 and step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f} lr {optimizer.param_groups[0]['lr']:.4f}")
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    main()
