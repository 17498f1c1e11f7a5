"""The dataset seeds the global generator for each sample, to be reproducible: dropout and noise repeat in every step."""
# source: https://docs.pytorch.org/docs/stable/notes/randomness.html
# first effect: step 1
# names: seed, manual_seed
# family: data
# detectable: yes the global random state is set back to the same few values within each iteration

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __init__(self, fixed):
        generator = torch.Generator().manual_seed(5)
        self.x = torch.randn(192, 24, generator=generator)
        self.y = self.x[:, 4:20].sum(1).gt(0).long()
        self.fixed = fixed

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        if self.fixed:
            start = int(torch.randint(8, (), generator=torch.Generator().manual_seed(index)))
        else:
            torch.manual_seed(42)
            start = int(torch.randint(8, ()))
        return self.x[index, start : start + 16], self.y[index]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=36)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    order = torch.Generator().manual_seed(args.seed)
    loader = DataLoader(Crops(args.fixed), batch_size=16, shuffle=True, generator=order)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(args.steps // 12):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
