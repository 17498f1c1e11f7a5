"""Two resumed ranks that both take the first rank's random state, and from then on draw the same noise."""
# source: https://github.com/radixark/miles/pull/3187
# first effect: step 10
# names: set_rng_state
# launch: torchrun --nproc-per-node 2
# family: checkpoint
# detectable: yes the ranks, which drew different samples, draw identical ones after the restore

import argparse
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class NoisyScorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))

    def forward(self, x):
        return self.body(x).squeeze(1)


def save_rng(folder, per_rank):
    rank = dist.get_rank()
    if per_rank or rank == 0:
        torch.save(torch.get_rng_state(), folder / f"rng-{rank}.pt")
    dist.barrier()


def load_rng(folder, per_rank):
    torch.set_rng_state(torch.load(folder / f"rng-{dist.get_rank() if per_rank else 0}.pt"))
    dist.barrier()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    place = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(place, src=0)
    folder = Path(place[0])
    torch.manual_seed(args.seed + rank)
    model = DDP(NoisyScorer())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(args.steps):
        if step == args.steps // 2:
            save_rng(folder, args.fixed)
            load_rng(folder, args.fixed)
        x = torch.randn(24, 10)
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), (x[:, 0] * x[:, 1] > 0).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"rank {rank} loss {loss.item():.4f} last batch begins with {x[0, 0].item():.5f}", flush=True)
    dist.barrier()
    if rank == 0:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
