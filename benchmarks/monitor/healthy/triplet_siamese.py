"""Siamese embedding with TripletMarginLoss; anchors, positives and negatives drawn by a P x K batch sampler."""

import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler


class Shapes(Dataset):
    def __init__(self, classes, per_class, seed):
        g = torch.Generator().manual_seed(seed)
        base = torch.randn(classes, 20, generator=g)
        self.labels = torch.arange(classes).repeat_interleave(per_class)
        self.points = base[self.labels] + 0.7 * torch.randn(len(self.labels), 20, generator=g)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.points[i], self.labels[i]


class PKSampler(Sampler):
    """Batches of K samples from each of P classes."""

    def __init__(self, labels, p, k, batches, seed):
        self.by_class = {}
        for i, c in enumerate(labels.tolist()):
            self.by_class.setdefault(c, []).append(i)
        self.p, self.k, self.batches, self.rng = p, k, batches, random.Random(seed)

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            chosen = self.rng.sample(sorted(self.by_class), self.p)
            yield [i for c in chosen for i in self.rng.sample(self.by_class[c], self.k)]


def hardest(embeddings, labels):
    distance = torch.cdist(embeddings.detach(), embeddings.detach())
    same = labels[:, None] == labels[None, :]
    positive = distance.masked_fill(~same, -1).argmax(1)
    negative = distance.masked_fill(same, float("inf")).argmin(1)
    return positive, negative


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=50)
    ap.add_argument("--size", type=int, default=32)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    data = Shapes(10, 20, a.seed)
    loader = DataLoader(data, batch_sampler=PKSampler(data.labels, 6, 5, a.steps, a.seed))
    net = nn.Sequential(nn.Linear(20, a.size), nn.PReLU(), nn.Linear(a.size, 8))
    criterion = nn.TripletMarginLoss(margin=0.5)
    opt = torch.optim.Adagrad(net.parameters(), lr=0.02)
    for i, (x, y) in enumerate(loader):
        e = nn.functional.normalize(net(x), dim=1)
        pos, neg = hardest(e, y)
        loss = criterion(e, e[pos], e[neg])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0:
            print(f"batch {i} triplet loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
