"""ZeroRedundancyOptimizer around Adam in a DDP program: the state of the optimizer is sharded, the weights are not."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP


def autoencoder(d):
    return nn.Sequential(
        nn.Linear(20, d), nn.ELU(), nn.Linear(d, 4), nn.ELU(), nn.Linear(4, d), nn.ELU(), nn.Linear(d, 20)
    )


def main(seed: int, steps: int, size: int):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(seed)
    ddp = DDP(autoencoder(size))
    optimizer = ZeroRedundancyOptimizer(ddp.parameters(), optimizer_class=torch.optim.Adam, lr=5e-3)
    g = torch.Generator().manual_seed(seed)
    basis = torch.randn(4, 20, generator=g)
    g.manual_seed(seed + rank + 1)
    for step in range(steps):
        batch = torch.randn(32, 4, generator=g) @ basis
        loss = nn.functional.mse_loss(ddp(batch), batch)
        ddp.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if rank == 0 and (step + 1) % 10 == 0:
            print(f"[{step + 1}] reconstruction {loss.item():.4f}", flush=True)
    optimizer.consolidate_state_dict(to=0)
    if rank == 0:
        print("state of", len(optimizer.state_dict()["state"]), "parameters gathered", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--seed", type=int, default=3)
    cli.add_argument("--steps", type=int, default=40)
    cli.add_argument("--size", type=int, default=32)
    main(**vars(cli.parse_args()))
