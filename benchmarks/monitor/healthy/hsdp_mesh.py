"""Hybrid sharding on four ranks: parameters sharded over one mesh dimension and replicated over the other."""
# launch: torchrun --standalone --nproc-per-node 4

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def regression_batch(rng, n=16):
    x = torch.randn(n, 12, generator=rng)
    return x, torch.cos(x[:, :4]).sum(1, keepdim=True)


def cli():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--steps", type=int, default=30)
    ap.add_argument("--size", type=int, default=32)
    return ap.parse_args()


if __name__ == "__main__":
    args = cli()
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    torch.manual_seed(args.seed)
    model = nn.Sequential(
        *(nn.Sequential(nn.Linear(12 if i == 0 else args.size, args.size), nn.Tanh()) for i in range(3)),
        nn.Linear(args.size, 1),
    )
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for child in model:
        fully_shard(child, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.98)
    rng = torch.Generator().manual_seed(args.seed * 1000 + dist.get_rank())
    for step in range(args.steps):
        x, y = regression_batch(rng)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x).float(), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        if dist.get_rank() == 0 and step % 6 == 0:
            print(step, round(loss.item(), 4), flush=True)
    dist.destroy_process_group()
