"""Two groups of two ranks each hold a sharded copy of the model; every group draws its own first weights, and nobody makes them one."""
# source: https://github.com/allenai/OLMo-core/pull/319
# first effect: step 0
# names: weight, bias
# launch: torchrun --nproc-per-node 4
# family: init
# detectable: yes shards that are to be copies of each other have different bits from the first step on

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    torch.manual_seed(args.seed + (0 if args.fixed else rank // 2))
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    torch.manual_seed(args.seed + 50 + rank)
    for step in range(args.steps):
        x = torch.randn(16, 8)
        loss = nn.functional.mse_loss(model(x), x[:, :4].abs())
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
