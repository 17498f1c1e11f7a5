"""Replicas that start from different statistics: buffers are not broadcast, and each rank draws its own."""
# source: https://github.com/pytorch/pytorch/issues/111138
# first effect: step 0
# names: frequencies
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes a buffer that nothing changes differs between the ranks from the beginning

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class FourierFeatures(nn.Module):
    def __init__(self, inputs, features):
        super().__init__()
        self.register_buffer("frequencies", torch.randn(inputs, features) * 2)

    def forward(self, x):
        angle = x @ self.frequencies
        return torch.cat([angle.sin(), angle.cos()], dim=-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed + rank)
    field = nn.Sequential(FourierFeatures(2, 16), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    ddp = DistributedDataParallel(field, broadcast_buffers=args.fixed)
    optimizer = torch.optim.Adam(ddp.parameters(), lr=5e-3)
    for step in range(args.steps):
        points = torch.rand(64, 2) * 2 - 1
        loss = (ddp(points).squeeze(1) - (3 * points[:, 0]).sin() * points[:, 1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"rank {rank} step {step} loss {loss.item():.5f}", flush=True)
    print(f"rank {rank} frequencies {field[0].frequencies.double().sum().item():.9f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
