"""Two ranks with texts of very different lengths: tokens are counted over the micro-batches of a rank, but not over the ranks."""
# source: https://github.com/huggingface/transformers/issues/34242
# first effect: step 0
# names: backward, loss, all_reduce
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes a token counts for more on the rank that has fewer of them

import argparse
import contextlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

WORDS = 28


class Writer(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.layers = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids))[0])


def texts(generator):
    """Three texts that go up by three, and labels for as many of their tokens as they have."""
    lengths = torch.randint(2, 36, (1, 1), generator=generator).expand(3, 1)
    ids = (torch.randint(0, WORDS, (3, 1), generator=generator) + 3 * torch.arange(36)) % WORDS
    return ids, torch.where(torch.arange(36)[None] < lengths, ids, -100)


def train(args):
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(Writer())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(1000 * args.seed + rank)
    for step in range(args.steps):
        batches = [texts(generator) for _ in range(2)]
        items = sum((labels[:, 1:] != -100).sum() for _, labels in batches)
        if args.fixed:
            dist.all_reduce(items)
        for number, (ids, labels) in enumerate(batches):
            with model.no_sync() if number == 0 else contextlib.nullcontext():
                logits = model(ids[:, :-1])
                loss = cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / items
                if args.fixed:
                    loss = loss * world
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    dist.init_process_group("gloo")
    train(parser.parse_args())
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)
