"""Data parallel CNN with local BatchNorm, two processes started by torch.multiprocessing.spawn, checkpoint by rank 0."""

import argparse
import os
import socket
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def setup(rank, world_size, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def make_model(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * width, 3),
    )


def worker(rank, world_size, port, cfg):
    setup(rank, world_size, port)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    model = DistributedDataParallel(make_model(cfg.size))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data_rng = torch.Generator().manual_seed(cfg.seed * 7919 + rank)
    for step in range(cfg.steps):
        y = torch.randint(0, 3, (16,), generator=data_rng)
        x = 0.3 * torch.randn(16, 1, 12, 12, generator=data_rng)
        for k in range(3):
            x[y == k, :, 4 * k : 4 * k + 4] += 1.0
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    path = os.path.join(cfg.folder, "model.pt")
    if rank == 0:
        torch.save(model.module.state_dict(), path)
    dist.barrier()
    restored = make_model(cfg.size)
    restored.load_state_dict(torch.load(path, weights_only=True))
    if rank == 0:
        print("restored", sum(p.numel() for p in restored.parameters()), "weights", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--world-size", type=int, default=2)
    cfg = parser.parse_args()
    with tempfile.TemporaryDirectory() as cfg.folder:
        mp.spawn(worker, args=(cfg.world_size, free_port(), cfg), nprocs=cfg.world_size, join=True)
