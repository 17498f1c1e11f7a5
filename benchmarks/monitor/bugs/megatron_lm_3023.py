"""Gradients averaged by hand over two ranks after each micro-batch: what was added up before is halved again each time."""
# source: https://github.com/NVIDIA/Megatron-LM/pull/3023
# first effect: step 0
# names: all_reduce, backward
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: no the sums are kept in tensors of the program's own, and what is seen of the ranks does not tell what they should be

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(args.seed + 1 + rank)
    main_grads = [torch.zeros_like(p) for p in model.parameters()]
    for step in range(args.steps):
        for total in main_grads:
            total.zero_()
        for _ in range(4):
            x = torch.randn(16, 10)
            y = torch.stack([x[:, :5].sum(1).sin(), x[:, 5:].sum(1).cos()], dim=1)
            loss = nn.functional.mse_loss(model(x), y) / 4
            loss.backward()
            for p, total in zip(model.parameters(), main_grads, strict=False):
                if args.fixed:
                    part = p.grad / world
                    dist.all_reduce(part)
                    total += part
                else:
                    total /= world
                    part = p.grad.clone()
                    dist.all_reduce(part)
                    total += part
                p.grad = None
        for p, total in zip(model.parameters(), main_grads, strict=False):
            p.grad = total
        optimizer.step()
        for p in model.parameters():
            p.grad = None
        if rank == 0 and step % 3 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    main()
