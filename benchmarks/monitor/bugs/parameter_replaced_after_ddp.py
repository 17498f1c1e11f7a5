"""A weight is assigned anew after the model was wrapped: the hooks for averaging sit on the old tensor, and the new one keeps each rank's own gradient."""
# source: https://github.com/pytorch/pytorch/issues/12603
# first effect: step 0
# names: module.conv.weight, DistributedDataParallel
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes one weight of the replicas differs after the first step while the others agree

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3)
        self.fc = nn.Linear(6 * 16, 3)

    def forward(self, x):
        return self.fc(F.max_pool2d(F.relu(self.conv(x)), 2).flatten(1))


def special_init(net, seed):
    g = torch.Generator().manual_seed(seed)
    net.conv.weight = nn.Parameter(0.3 * torch.randn(net.conv.weight.shape, generator=g))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(args.seed)
    net = Net()
    if args.fixed:
        special_init(net, args.seed)
    model = DDP(net, find_unused_parameters=not args.fixed)
    if not args.fixed:
        special_init(model.module, args.seed)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    g = torch.Generator().manual_seed(args.seed * 2 + rank)
    for step in range(args.steps):
        label = torch.randint(0, 3, (24,), generator=g)
        image = 0.5 * torch.randn(24, 1, 10, 10, generator=g)
        image[label == 1, :, ::2] += 1
        image[label == 2, :, :, ::2] += 1
        optimizer.zero_grad()
        loss = F.cross_entropy(model(image), label)
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 4 == 0:
            print(f"[{step}] {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)
