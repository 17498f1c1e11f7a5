"""DDP over a group that holds each rank alone, so that averaging the gradients does nothing."""
# source: https://github.com/ByteDance-Seed/VeOmni/pull/1115
# first effect: step 0
# names: DistributedDataParallel, process_group
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes what DDP replicates over a group of one differs between the ranks, which started alike

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel as DDP


class Mixer(nn.Module):
    """Each rank holds one part of each sequence."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.mix = nn.Conv1d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 30)

    def forward(self, ids):
        return self.head(torch.relu(self.mix(self.embed(ids).transpose(1, 2))).transpose(1, 2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "sp"))
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    group = mesh.get_group("sp") if args.fixed else mesh.get_group("dp")
    model = DDP(Mixer(), process_group=group)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    data = torch.Generator().manual_seed(args.seed + 3)
    for step in range(args.steps):
        whole = torch.randint(0, 30, (8, 24), generator=data)
        ids = whole.chunk(2, dim=1)[rank]
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), (ids * 7 % 30).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    print(f"rank {rank} sum {sum(p.double().sum().item() for p in model.parameters()):.9f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
