"""A view of a NumPy table is standardised in place, column by column, whenever a sample is asked for: each epoch does so once more."""
# source: https://numpy.org/doc/stable/user/basics.copies.html
# first effect: step 6
# names: loader0
# family: data
# detectable: yes all stored rows are scaled and shifted from loop to loop

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Table(Dataset):
    def __init__(self, fixed):
        draw = np.random.default_rng(5)
        self.rows = (draw.normal(size=(192, 9)) * draw.uniform(2, 5, 9) + draw.uniform(-3, 8, 9)).astype(np.float32)
        self.labels = (self.rows[:, 0] > self.rows[:, 0].mean()).astype(np.int64)
        self.mean, self.std = self.rows.mean(0), self.rows.std(0)
        self.fixed = fixed

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index].copy() if self.fixed else self.rows[index]
        row -= self.mean
        row /= self.std
        return torch.from_numpy(row.copy()), self.labels[index]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(Table(args.fixed), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(args.steps // 6):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
