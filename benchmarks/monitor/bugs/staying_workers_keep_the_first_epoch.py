"""The strength of the augmentation is raised with each epoch, and workers that stay go on with that of the first."""
# source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
# first effect: step 8
# names: loader0, Curves.strength
# family: data
# detectable: yes what the workers read was changed in the main process after they had been started, once and for all

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Curves(Dataset):
    def __init__(self, count):
        self.count = count
        self.strength = 0.0

    def __len__(self):
        return self.count

    def augmented(self, curve, generator):
        return curve + self.strength * torch.randn(curve.shape, generator=generator)

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        phase = torch.rand((), generator=generator)
        curve = torch.sin(6.28 * (torch.linspace(0, 1, 24) + phase))
        return self.augmented(curve, generator), phase


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    dataset = Curves(128)
    loader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=2, persistent_workers=not args.fixed)
    model = nn.Sequential(nn.Linear(24, 32), nn.SiLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(max(1, args.steps // len(loader))):
        dataset.strength = 0.2 * epoch
        for curves, phase in loader:
            loss = nn.functional.smooth_l1_loss(model(curves).squeeze(1), phase)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
