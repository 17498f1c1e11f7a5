"""The loader's iterator is made anew at each iteration, so the run only ever sees the first batch."""
# source: https://github.com/leohsuofnthu/Pytorch-IterativeFCN/issues/7
# first effect: step 1
# names: DataLoader, next
# family: data
# detectable: yes every step receives the same samples while the loader has others

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    def __init__(self, n=640, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.volumes = torch.randn(n, 1, 6, 6, 6, generator=g)
        self.labels = (self.volumes[:, 0, 2:4, 2:4, 2:4].mean(dim=(1, 2, 3)) > 0).long()

    def __len__(self):
        return len(self.volumes)

    def __getitem__(self, i):
        return self.volumes[i], self.labels[i]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(Patches(seed=args.seed), batch_size=16, shuffle=False)
    net = nn.Sequential(nn.Conv3d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 64, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    patches = iter(loader)
    for iteration in range(args.steps):
        img, gt = next(patches) if args.fixed else next(iter(loader))
        loss = nn.functional.cross_entropy(net(img), gt)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if iteration % 5 == 0:
            print(f"iteration {iteration} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
