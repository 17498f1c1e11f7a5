"""Batches of similar length from a bucketing batch sampler, padded by a collate function, under a budget of tokens."""

import argparse
import random

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = [[rng.randrange(1, 20) for _ in range(rng.randrange(3, 24))] for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        return row, sum(word % 2 for word in row) / len(row)


class TokenBudget:
    def __init__(self, lengths, budget, seed):
        self.lengths, self.budget, self.seed, self.epoch = lengths, budget, seed, 0

    def __iter__(self):
        rng = random.Random(self.seed + self.epoch)
        self.epoch += 1
        order = sorted(range(len(self.lengths)), key=lambda i: (self.lengths[i], rng.random()))
        batches, batch = [], []
        for i in order:
            if batch and (len(batch) + 1) * self.lengths[i] > self.budget:
                batches.append(batch)
                batch = []
            batch.append(i)
        batches.append(batch)
        rng.shuffle(batches)
        yield from batches


def pad(batch):
    longest = max(len(row) for row, _ in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    for k, (row, _) in enumerate(batch):
        ids[k, : len(row)] = torch.tensor(row)
    return ids, ids.ne(0), torch.tensor([target for _, target in batch])


class AttentionPool(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.emb = nn.Embedding(20, d, padding_idx=0)
        self.score = nn.Linear(d, 1)
        self.out = nn.Linear(d, 1)

    def forward(self, ids, mask):
        h = self.emb(ids)
        a = self.score(torch.tanh(h)).squeeze(-1).masked_fill(~mask, float("-inf")).softmax(1)
        return self.out((a.unsqueeze(-1) * h).sum(1)).squeeze(1)


def main(args):
    torch.manual_seed(args.seed)
    data = Sentences(400, args.seed)
    loader = DataLoader(data, batch_sampler=TokenBudget([len(r) for r in data.rows], 256, args.seed), collate_fn=pad)
    model = AttentionPool(args.size)
    optim = torch.optim.Adam(model.parameters(), lr=1e-2)
    step = 0
    while step < args.steps:
        for ids, mask, target in loader:
            optim.zero_grad()
            loss = nn.functional.mse_loss(model(ids, mask), target)
            loss.backward()
            optim.step()
            step += 1
            if step % 10 == 0:
                print(f"step {step} batch {tuple(ids.shape)} loss {loss.item():.5f}")
            if step >= args.steps:
                break


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=16)
    main(parser.parse_args())
