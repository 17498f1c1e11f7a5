"""DDP tagger whose loss is divided by the labelled tokens of all ranks, and multiplied by their number: DDP averages."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TAGS = 5


class Tagger(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Embedding(40, width)
        self.conv = nn.Conv1d(width, width, kernel_size=3, padding=1)
        self.norm = nn.LayerNorm(width)
        self.tags = nn.Linear(width, TAGS)

    def forward(self, words):
        found = self.conv(self.embed(words).transpose(1, 2)).transpose(1, 2)
        return self.tags(self.norm(found).relu())


def sentences(generator):
    """Four sentences; those of one draw are about as long."""
    words = torch.randint(0, 40, (4, 24), generator=generator)
    length = torch.randint(2, 24, (1,), generator=generator)
    tags = words % TAGS
    return words, tags.masked_fill(torch.arange(24)[None] >= length, -1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--size", type=int, default=24)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(Tagger(args.size))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(31 * args.seed + rank)
    for step in range(args.steps):
        words, tags = sentences(generator)
        labelled = (tags != -1).sum()
        dist.all_reduce(labelled)
        summed = nn.functional.cross_entropy(
            model(words).flatten(0, 1), tags.flatten(), ignore_index=-1, reduction="sum"
        )
        loss = world * summed / labelled
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step}: {loss.item():.4f}, {int(labelled)} tokens", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
