"""Contrastive learning over two ranks, whose gathering keeps only a rank's own gradients on the way back."""
# source: https://github.com/lightly-ai/lightly/issues/1528
# first effect: step 0
# names: GatherLayer, all_gather
# launch: torchrun --nproc-per-node 2
# family: gradients
# detectable: no the ranks agree with each other, the gradients are only too small by what is left out

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class GatherLayer(torch.autograd.Function):
    fixed = False

    @staticmethod
    def forward(ctx, x):
        pieces = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, x.contiguous())
        return tuple(pieces)

    @staticmethod
    def backward(ctx, *gradients):
        if GatherLayer.fixed:
            whole = torch.stack(gradients)
            dist.all_reduce(whole)
            return whole[dist.get_rank()]
        return gradients[dist.get_rank()].clone()


def nt_xent(first, second, temperature=0.2):
    rank, size = dist.get_rank(), first.size(0)
    first_all = torch.cat(GatherLayer.apply(first))
    second_all = torch.cat(GatherLayer.apply(second))
    labels = torch.arange(size) + rank * size
    return (
        F.cross_entropy(first @ second_all.t() / temperature, labels)
        + F.cross_entropy(second @ first_all.t() / temperature, labels)
    ) / 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    GatherLayer.fixed = args.fixed
    torch.manual_seed(args.seed)
    encoder = DDP(nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 16)))
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(args.seed + 1 + dist.get_rank())
    for step in range(args.steps):
        x = torch.randn(12, 20)
        views = torch.cat([x + 0.3 * torch.randn_like(x), x + 0.3 * torch.randn_like(x)])
        first, second = F.normalize(encoder(views), dim=1).chunk(2)
        loss = nt_xent(first, second)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            norm = sum(p.grad.square().sum() for p in encoder.parameters()).sqrt()
            print(f"rank {dist.get_rank()} step {step} loss {loss.item():.4f} gradient {norm.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
