"""Every loader worker inherits the same NumPy generator, so the workers draw identical augmentations."""
# source: https://github.com/facebookresearch/fairseq/issues/1383
# first effect: step 1
# names: DataLoader, default_rng
# family: data
# detectable: no the samples are different, only the random crop and noise drawn for them are the same

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RNG = np.random.default_rng(1234)


class Waves(Dataset):
    """Random windows of long signals, with noise added on the fly."""

    def __init__(self, count):
        rate = np.linspace(0.05, 0.5, count)
        self.signals = np.sin(np.arange(256)[None, :] * rate[:, None]).astype(np.float32)
        self.targets = rate.astype(np.float32)

    def __len__(self):
        return len(self.signals)

    def __getitem__(self, index):
        start = RNG.integers(0, 256 - 64)
        noise = 0.3 * RNG.standard_normal(64).astype(np.float32)
        return torch.from_numpy(self.signals[index, start : start + 64] + noise), self.targets[index]


def own_generator(worker_id):
    global RNG
    RNG = np.random.Generator(RNG.bit_generator.jumped(worker_id))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(
        Waves(192),
        batch_size=16,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
        worker_init_fn=own_generator if args.fixed else None,
    )
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    step = 0
    while step < args.steps:
        for x, y in loader:
            loss = nn.functional.mse_loss(net(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 6 == 0:
                print(f"step {step} loss {loss.item():.5f}")
            step += 1
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
