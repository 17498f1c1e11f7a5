"""Gradients are averaged by hand over the ranks, and the normalisation layers are left out."""
# source: https://github.com/NVIDIA/Megatron-LM/issues/1446
# first effect: step 0
# names: norm.weight, norm.bias, final_norm.weight, final_norm.bias, all_reduce
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes these four parameters of the replicas differ after the first step, the others do not

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn


class Block(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.inp = nn.Linear(8, d)
        self.norm = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.final_norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, 8)

    def forward(self, x):
        h = self.inp(x)
        h = h + self.mlp(self.norm(h))
        return self.out(self.final_norm(h))


def average_gradients(model, fixed):
    for name, p in model.named_parameters():
        if p.grad is None or ("norm" in name and not fixed):
            continue
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = Block()
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    torch.manual_seed(args.seed + rank)
    for step in range(args.steps):
        x = torch.randn(32, 8)
        loss = nn.functional.mse_loss(model(x), x.sort(dim=1).values)
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model, args.fixed)
        optimizer.step()
        if rank == 0 and step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    main()
