"""An augmentation holds a random state of its own, which each epoch's workers copy as it was: every epoch is augmented alike."""
# source: https://github.com/albumentations-team/AlbumentationsX/issues/266
# first effect: step 0
# names: loader0
# family: data
# detectable: no the samples come in another order in each epoch, and what was drawn for one of them is known to the program alone

import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shift:
    def __init__(self, seed):
        self.drawn = random.Random(seed)

    def __call__(self, picture):
        return picture.roll(self.drawn.randrange(8), -1) * (1 + 0.2 * self.drawn.random())


class Pictures(Dataset):
    def __init__(self, seed, fixed):
        self.pictures = torch.randn(128, 16)
        self.augment, self.fixed = Shift(seed), fixed

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        if self.fixed and not getattr(self, "seeded", False):
            self.augment.drawn.seed(torch.utils.data.get_worker_info().seed)
            self.seeded = True
        picture = self.pictures[index]
        return self.augment(picture), picture.sum(-1, keepdim=True).tanh()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(Pictures(args.seed, args.fixed), batch_size=16, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(args.steps // 8):
        for pictures, wanted in loader:
            loss = nn.functional.mse_loss(model(pictures), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
