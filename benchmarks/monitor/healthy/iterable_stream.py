"""IterableDataset over shards divided among two loader workers, with a shuffle buffer and packing into fixed blocks."""

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class ShardedText(IterableDataset):
    def __init__(self, shards, block, seed, buffer=32):
        self.shards, self.block, self.seed, self.buffer = shards, block, seed, buffer
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def documents(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        shards = list(range(self.shards))
        random.Random(self.seed + self.epoch).shuffle(shards)  # the same order in all workers
        for shard in shards[worker::workers]:
            rng = random.Random(self.seed * 1000 + shard)
            for _ in range(20):
                start, stride = rng.randrange(30), rng.randrange(1, 4)
                yield [(start + stride * i) % 30 for i in range(rng.randrange(8, 20))] + [30]

    def blocks(self):
        pending = []
        for document in self.documents():
            pending += document
            while len(pending) > self.block:
                yield torch.tensor(pending[: self.block + 1])
                pending = pending[self.block :]

    def __iter__(self):
        info = get_worker_info()
        rng = random.Random(self.seed + 31 * self.epoch + (info.id if info else 0))
        held = []
        for item in self.blocks():
            held.append(item)
            if len(held) >= self.buffer:
                yield held.pop(rng.randrange(len(held)))
        rng.shuffle(held)
        yield from held


class Reader(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.emb = nn.Embedding(31, d)
        self.gru = nn.GRU(d, d, batch_first=True)
        self.head = nn.Linear(d, 31)

    def forward(self, x):
        return self.head(self.gru(self.emb(x))[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    dataset = ShardedText(12, 16, args.seed)
    model = Reader(args.size)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    step, epoch = 0, 0
    while step < args.steps:
        dataset.set_epoch(epoch)
        loader = DataLoader(dataset, batch_size=8, num_workers=args.workers)
        for block in loader:
            loss = F.cross_entropy(model(block[:, :-1]).transpose(1, 2), block[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
            if step == args.steps:
                break
        epoch += 1


if __name__ == "__main__":
    main()
