"""DDP, whose ranks all hold the same gradients: each measures their norm for itself, records it, and clips by it."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils import clip_grads_with_norm_


def norm_of(parameters):
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(p.grad) for p in parameters]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    net = nn.Sequential(
        nn.Linear(6, args.size), nn.Tanh(), nn.Linear(args.size, args.size), nn.Tanh(), nn.Linear(args.size, 2)
    )
    model = DDP(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    generator = torch.Generator().manual_seed(500 + 7 * args.seed + rank)
    for step in range(args.steps):
        x = torch.randn(32, 6, generator=generator)
        wanted = torch.stack([x[:, 0] * x[:, 1], x[:, 2:].sum(dim=1)], dim=1)
        loss = nn.functional.smooth_l1_loss(model(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        parameters = [p for p in model.parameters() if p.grad is not None]
        norm = norm_of(parameters)
        clip_grads_with_norm_(parameters, 0.2, norm)
        optimizer.step()
        if rank == 0 and step % 6 == 0:
            print(f"step {step}: loss {loss.item():.4f} norm {norm.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
