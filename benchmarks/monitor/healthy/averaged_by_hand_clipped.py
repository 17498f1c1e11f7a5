"""Two ranks without a wrapper: the weights are sent around once, gradients are averaged by hand and then clipped."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse

import torch
import torch.distributed as dist
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--size", type=int, default=24)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed + rank)
    net = nn.Sequential(nn.Linear(12, args.size), nn.Tanh(), nn.Linear(args.size, 1))
    for weight in net.parameters():
        dist.broadcast(weight.data, src=0)
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for step in range(args.steps):
        x = torch.randn(32, 12)
        y = x[:, :3].sum(dim=1, keepdim=True)
        loss = nn.functional.mse_loss(net(x), y)
        sgd.zero_grad()
        loss.backward()
        for weight in net.parameters():
            dist.all_reduce(weight.grad)
            weight.grad /= world
        nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        sgd.step()
        if rank == 0 and step % 10 == 0:
            print(f"{step}: {loss.item():.4f}")
    if rank == 0:
        print(f"loss {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
