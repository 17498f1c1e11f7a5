"""Two replicas with running statistics that DDP no longer sees, because the buffer is replaced at each step."""
# source: https://github.com/pytorch/pytorch/issues/63916
# first effect: step 0
# names: centre, buffer
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes a buffer that should be the same on all ranks differs

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class CentredHead(nn.Module):
    """Subtracts a running mean of what it has seen, as a teacher's centre."""

    def __init__(self, width, fixed):
        super().__init__()
        self.project = nn.Linear(width, width)
        self.register_buffer("centre", torch.zeros(1, width))
        self.fixed = fixed

    def forward(self, x):
        y = self.project(x)
        with torch.no_grad():
            mean = y.mean(dim=0, keepdim=True)
            if self.fixed:
                dist.all_reduce(mean)
                mean /= dist.get_world_size()
                self.centre.mul_(0.9).add_(mean, alpha=0.1)
            else:
                self.centre = self.centre * 0.9 + mean * 0.1
        return y - self.centre


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    head = CentredHead(12, args.fixed)
    model = DDP(nn.Sequential(nn.Linear(8, 12), nn.ReLU(), head, nn.Linear(12, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(args.seed + 5 + rank)
    for step in range(args.steps):
        x = torch.randn(16, 8) + 0.5 * rank
        loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(dim=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"rank {rank} step {step} loss {loss.item():.4f}", flush=True)
    print(f"rank {rank} centre {head.centre.double().sum().item():.9f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
