"""Augmentation in loader workers with random, numpy and torch, each worker seeded from the loader's base seed."""

import argparse
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


def seed_worker(worker_id):
    worker_seed = torch.initial_seed() % 2**32
    np.random.seed(worker_seed)
    random.seed(worker_seed)


class Augmented(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, 4, n)
        grid = np.linspace(-1, 1, 14, dtype=np.float32)
        xx, yy = np.meshgrid(grid, grid)
        fields = np.stack([xx, yy, xx * yy, xx**2 + yy**2 - 0.7])
        self.x = fields[self.y].astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        image = self.x[i].copy()
        if random.random() < 0.3:
            image = image * random.uniform(0.7, 1.3)
        r, c = np.random.randint(0, 10, 2)
        image[r : r + 4, c : c + 4] = 0
        tensor = torch.from_numpy(np.ascontiguousarray(image)).unsqueeze(0)
        return tensor + 0.2 * torch.randn_like(tensor), int(self.y[i])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--size", type=int, default=8)
    p.add_argument("--workers", type=int, default=2)
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    g = torch.Generator()
    g.manual_seed(args.seed)
    loader = DataLoader(
        Augmented(320, args.seed),
        batch_size=16,
        shuffle=True,
        num_workers=args.workers,
        worker_init_fn=seed_worker,
        generator=g,
    )
    model = nn.Sequential(
        nn.Conv2d(1, args.size, 3, 2, 1), nn.BatchNorm2d(args.size), nn.ReLU(),
        nn.Conv2d(args.size, 2 * args.size, 3, 2, 1), nn.BatchNorm2d(2 * args.size), nn.ReLU(),
        nn.Flatten(), nn.Linear(2 * args.size * 16, 4),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    step = 0
    for epoch in range(1000):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
            if step >= args.steps:
                return


if __name__ == "__main__":
    main()
