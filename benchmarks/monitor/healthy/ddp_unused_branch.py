"""DDP with find_unused_parameters: one of two heads takes part in a step, the other gets no gradient then."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


class TwoHeads(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, width), nn.ReLU())
        self.heads = nn.ModuleDict({"sum": nn.Linear(width, 1), "product": nn.Linear(width, 1)})

    def forward(self, x, task):
        return self.heads[task](self.body(x))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--size", type=int, default=32)
    args = ap.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(TwoHeads(args.size), find_unused_parameters=True)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    g = torch.Generator().manual_seed(100 * args.seed + dist.get_rank())
    for step in range(args.steps):
        task = "sum" if step % 2 == 0 else "product"
        x = torch.randn(16, 8, generator=g)
        y = (x.sum(1) if task == "sum" else x[:, 0] * x[:, 1]).unsqueeze(1)
        loss = nn.functional.huber_loss(model(x, task), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if dist.get_rank() == 0 and step % 10 < 2:
            print(f"{step} {task} {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


main()
