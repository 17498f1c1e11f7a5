"""DDP with a communication hook that reduces gradients in half precision, a shared buffer, and a warm-up then cosine schedule."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP


class Fourier(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("freq", torch.randn(2, width))
        self.net = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.GELU(), nn.Linear(2 * width, 3))

    def forward(self, xy):
        angle = xy @ self.freq
        return self.net(torch.cat([angle.sin(), angle.cos()], -1))


def picture(xy):
    r = xy.norm(dim=1)
    return torch.stack([(4 * r).sin(), xy[:, 0] * xy[:, 1], (r < 0.7).float()], 1)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=50)
    p.add_argument("--size", type=int, default=32)
    a = p.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(a.seed + dist.get_rank())  # DDP broadcasts weights and buffers of rank 0 at the start
    model = DDP(Fourier(a.size), bucket_cap_mb=1)
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    warm = max(1, a.steps // 10)

    def factor(t):
        return (t + 1) / warm if t < warm else 0.5 * (1 + math.cos(math.pi * (t - warm) / max(1, a.steps - warm)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    for step in range(a.steps):
        xy = torch.rand(128, 2) * 2 - 1
        loss = (model(xy) - picture(xy)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.5f}", flush=True)
    dist.destroy_process_group()
