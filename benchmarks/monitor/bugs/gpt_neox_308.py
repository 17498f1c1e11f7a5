"""On resume the loader is moved on by steps instead of micro-batches: with accumulation, data is seen a second time."""
# source: https://github.com/EleutherAI/gpt-neox/pull/308
# first effect: step 6
# names: loader
# family: checkpoint
# detectable: yes batches after the resume were already trained on before it, in the same pass over the data

import argparse
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

ACCUMULATION = 4


class Resumable(Sampler):
    def __init__(self, count, seed, start=0):
        self.order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
        self.start = start

    def __iter__(self):
        return iter(self.order[self.start :])

    def __len__(self):
        return len(self.order) - self.start


def train(data, folder, first, last, seed, fixed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(10, 30), nn.Tanh(), nn.Linear(30, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    file = folder / "last.pt"
    if first:
        saved = torch.load(file)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    done = first * ACCUMULATION if fixed else first
    loader = iter(DataLoader(data, batch_size=8, sampler=Resumable(len(data), seed, 8 * done)))
    for step in range(first, last):
        optimizer.zero_grad()
        for _ in range(ACCUMULATION):
            x, y = next(loader)
            loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION
            loss.backward()
        optimizer.step()
        print(f"step {step} loss {ACCUMULATION * loss.item():.4f}")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": last}, file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    x = torch.randn(8 * ACCUMULATION * args.steps, 10, generator=torch.Generator().manual_seed(args.seed))
    data = TensorDataset(x, x[:, :1] * x[:, 1:2])
    with tempfile.TemporaryDirectory() as folder:
        train(data, Path(folder), 0, args.steps // 2, args.seed, args.fixed)
        train(data, Path(folder), args.steps // 2, args.steps, args.seed, args.fixed)


if __name__ == "__main__":
    main()
