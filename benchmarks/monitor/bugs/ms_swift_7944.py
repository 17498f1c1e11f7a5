"""Tensor parallelism over two ranks that initialise with one seed: both halves of each weight are the same, and stay so."""
# source: https://github.com/modelscope/ms-swift/pull/7944
# first effect: step 0
# names: up.weight, down.weight
# launch: torchrun --nproc-per-node 2
# family: init
# detectable: yes what two ranks add up in the forward pass is bit for bit the same on both, so that half of the model is idle

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        part = part.clone()
        dist.all_reduce(part)
        return part

    @staticmethod
    def backward(ctx, grad):
        return grad


class Share(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


class Mlp(nn.Module):
    def __init__(self, seed, own):
        super().__init__()
        torch.manual_seed(seed)
        self.inp = nn.Linear(8, 32)
        self.norm = nn.LayerNorm(32)
        self.out = nn.Linear(32, 4)
        torch.manual_seed(own)
        self.up = nn.Linear(32, 32)
        self.down = nn.Linear(32, 32, bias=False)

    def forward(self, x):
        h = self.inp(x)
        part = self.down(nn.functional.gelu(self.up(Share.apply(self.norm(h)))))
        return self.out(h + Add.apply(part))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = Mlp(args.seed, args.seed + 100 + (rank if args.fixed else 0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    torch.manual_seed(args.seed + 7)
    for step in range(args.steps):
        x = torch.randn(32, 8)
        loss = nn.functional.mse_loss(model(x), x[:, :4] * x[:, 4:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    main()
