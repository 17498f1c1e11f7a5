"""A stream under data parallelism that nobody divides: every rank reads the same samples."""
# source: https://github.com/huggingface/datasets/issues/5360
# first effect: step 0
# names: loader0
# launch: torchrun --nproc-per-node 2
# family: data
# detectable: yes the ranks see the same batches

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Shards(IterableDataset):
    def __init__(self, seed, fixed):
        super().__init__()
        self.seed, self.fixed = seed, fixed

    def __iter__(self):
        rank, world = (dist.get_rank(), dist.get_world_size()) if self.fixed else (0, 1)
        for shard in range(rank, 8, world):
            draw = torch.Generator().manual_seed(100 * self.seed + shard)
            for _ in range(64):
                yield torch.randn(8, generator=draw)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=14)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(Shards(args.seed, args.fixed), batch_size=16)
    for step, x in enumerate(loader):
        if step == args.steps:
            break
        loss = nn.functional.mse_loss(model(x)[:, 0], x[:, 0] * x[:, 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0 and dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
