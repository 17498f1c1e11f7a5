"""Tensor parallelism on two ranks: column- then row-wise linears with parallelize_module; every rank sees the same data."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.in_proj = nn.Linear(dim, hidden)
        self.act = nn.GELU()
        self.out_proj = nn.Linear(hidden, dim)

    def forward(self, x):
        return x + self.out_proj(self.act(self.in_proj(self.norm(x))))


class Net(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.stem = nn.Linear(10, dim)
        self.layers = nn.ModuleList([FeedForward(dim, 4 * dim) for _ in range(depth)])
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=5)
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--size", type=int, default=16)
args = parser.parse_args()

mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),), mesh_dim_names=("tp",))
torch.manual_seed(args.seed)
model = Net(args.size, 2)
for layer in model.layers:
    parallelize_module(layer, mesh, {"in_proj": ColwiseParallel(), "out_proj": RowwiseParallel()})
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)

torch.manual_seed(args.seed + 1)
w = torch.randn(10, 1)
for it in range(args.steps):
    x = torch.randn(32, 10)  # the same on every rank
    y = torch.sin(x @ w / 2)
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if mesh.get_rank() == 0 and it % 10 == 0:
        print(f"iter {it} loss {loss.item():.4f}", flush=True)
dist.destroy_process_group()
