"""Sounds are augmented when they are first read and kept: every later epoch hears the very same noise."""
# source: https://github.com/chaosparrot/parrot.py/issues/14
# first effect: step 8
# names: loader0
# family: data
# detectable: no a data set without augmentation gives the same samples in every epoch, too

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sounds(Dataset):
    def __init__(self, fixed):
        self.kind = torch.randint(0, 4, (128,))
        self.waves = torch.sin(torch.arange(32) * (self.kind[:, None] + 1) / 5)
        self.kept, self.fixed = {}, fixed

    def __len__(self):
        return len(self.waves)

    def augmented(self, index):
        return self.waves[index].roll(int(torch.randint(0, 8, ()))) + 0.3 * torch.randn(32)

    def __getitem__(self, index):
        if self.fixed:
            return self.augmented(index), self.kind[index]
        if index not in self.kept:
            self.kept[index] = self.augmented(index)
        return self.kept[index], self.kind[index]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(Sounds(args.fixed), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(args.steps // 8):
        for wave, kind in loader:
            loss = nn.functional.cross_entropy(model(wave), kind)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
