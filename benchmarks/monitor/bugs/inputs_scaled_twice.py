"""The pixels are divided by 255 in the input pipeline and once more before the model: everything it sees is close to zero."""
# source: https://github.com/pkmital/pycadl/pull/5
# first effect: step 0
# names: Sequential, Linear
# family: data
# detectable: yes the spread of the model's input is a thousandth, far from any usual scale

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, 4, n)
        self.images = rng.integers(0, 120, (n, 8, 8), dtype=np.uint8)
        for image, label in zip(self.images, self.labels, strict=True):
            image[2 * label : 2 * label + 2] += 120

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i].astype(np.float32) / 255.0), int(self.labels[i])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(Digits(256, args.seed), batch_size=32, shuffle=True)
    step = 0
    while step < args.steps:
        for images, labels in loader:
            batch = images.flatten(1)
            if not args.fixed:
                batch = batch / 255.0
            loss = nn.functional.cross_entropy(encoder(batch), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 6 == 0:
                print(f"step {step} loss {loss.item():.4f}")
            step += 1
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
