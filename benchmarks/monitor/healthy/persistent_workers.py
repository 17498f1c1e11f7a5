"""Persistent loader workers with prefetching over several epochs, an evaluation loader beside, early stopping on it."""

import argparse
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset


class Curves(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(index)  # a sample is a function of its index
        a, b = torch.rand(2, generator=g)
        t = torch.linspace(0, 1, 20)
        return torch.sin(6 * a * t) + b * t + 0.02 * torch.randn(20, generator=g), torch.stack([a, b])


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad, self.weights = patience, float("inf"), 0, None

    def __call__(self, value, model):
        if value < self.best:
            self.best, self.bad, self.weights = value, 0, copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad > self.patience


def validate(model, loader):
    model.eval()
    with torch.no_grad():
        errors = [((model(x) - y) ** 2).mean().item() for x, y in loader]
    return sum(errors) / len(errors)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=2)
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--size", type=int, default=32)
    opts = ap.parse_args()
    torch.manual_seed(opts.seed)
    full = Curves(400)
    train = DataLoader(
        Subset(full, range(320)), batch_size=32, shuffle=True, num_workers=2, persistent_workers=True, prefetch_factor=4
    )
    val = DataLoader(Subset(full, range(320, 400)), batch_size=40, num_workers=1, persistent_workers=True)
    model = nn.Sequential(nn.Linear(20, opts.size), nn.ReLU(), nn.Dropout(0.05), nn.Linear(opts.size, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    stopper = EarlyStopping(patience=2)
    for epoch in range(max(1, opts.steps // len(train))):
        model.train()
        for x, y in train:
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
        error = validate(model, val)
        print(f"epoch {epoch} train {loss.item():.5f} val {error:.5f}")
        if stopper(error, model):
            print("stopping early")
            break
    model.load_state_dict(stopper.weights)
    print(f"best {validate(model, val):.5f}")
