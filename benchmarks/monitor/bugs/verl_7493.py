"""Each rank shards its model over a group of one, so that gradients are reduced over nobody else."""
# source: https://github.com/verl-project/verl/issues/7493
# first effect: step 0
# names: 0.weight, 2.weight, 4.weight
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes ranks that began with the same weights and see different data hold different ones after a step

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("ddp", "fsdp"))
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4))
    given = mesh if args.fixed else mesh["fsdp"]
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=given)
    fully_shard(model, mesh=given)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    truth = torch.randn(16, 4)
    drawn = torch.Generator().manual_seed(100 * args.seed + dist.get_rank())
    for step in range(args.steps):
        x = torch.randn(16, 16, generator=drawn)
        loss = nn.functional.mse_loss(model(x), x @ truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
