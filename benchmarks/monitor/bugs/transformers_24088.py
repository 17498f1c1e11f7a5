"""Two ranks whose scheduler is made for the steps of the run and then stepped once for each rank."""
# source: https://github.com/huggingface/transformers/pull/24088
# first effect: step 1
# names: lr_scheduler, LambdaLR
# launch: torchrun --nproc-per-node 2
# family: schedule
# detectable: yes the scheduler advances twice for each step of its optimizer

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import LambdaLR


class PreparedScheduler:
    """Steps a scheduler as often as there are processes, as if its length had been counted for one."""

    def __init__(self, scheduler, times):
        self.scheduler = scheduler
        self.times = times

    def step(self):
        for _ in range(self.times):
            self.scheduler.step()

    def get_last_lr(self):
        return self.scheduler.get_last_lr()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    model = DDP(nn.Sequential(nn.Linear(14, 32), nn.ReLU(), nn.Linear(32, 7)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    warm = 4

    def shape(step):
        return min((step + 1) / warm, max(0.0, (args.steps - step) / (args.steps - warm)))

    lr_scheduler = PreparedScheduler(LambdaLR(optimizer, shape), 1 if args.fixed else dist.get_world_size())
    torch.manual_seed(args.seed + 11 * dist.get_rank())
    for step in range(args.steps):
        x = torch.randn(32, 14)
        loss = nn.functional.cross_entropy(model(x), x.view(-1, 7, 2).sum(dim=2).argmax(dim=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 4 == 0:
            print(f"{step} loss {loss.item():.4f} rate {lr_scheduler.get_last_lr()[0]:.6f}", flush=True)
        lr_scheduler.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
