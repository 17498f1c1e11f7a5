"""Loader workers that all start from the same random state, so that their augmentations are the same."""
# source: https://stackoverflow.com/questions/67180955
# first effect: step 1
# names: worker_init_fn, seed, DataLoader
# family: data
# detectable: yes batches of different workers hold the same samples

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spectrograms(Dataset):
    """Each example is a fixed pattern with noise and a random shift, drawn from numpy's global state."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        label = index % 4
        pattern = np.sin(np.arange(48) * (label + 1) / 5)
        shift = np.random.randint(0, 48)
        noisy = np.roll(pattern, shift) + np.random.normal(0, 0.3, 48)
        return torch.from_numpy(noisy.astype(np.float32)), label


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    def seed_worker(worker):
        np.random.seed(args.seed + worker if args.fixed else args.seed)

    loader = DataLoader(Spectrograms(16 * args.steps), batch_size=16, num_workers=2, worker_init_fn=seed_worker)
    model = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    before, repeated = None, 0
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        repeated += before is not None and torch.equal(inputs, before)
        before = inputs
    print(f"loss {loss.item():.4f}, batches equal to the one before {repeated}")


if __name__ == "__main__":
    main()
