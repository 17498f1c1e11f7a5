"""The data is split, and the training loader is made over the whole of it: the held-out part is trained on."""
# source: https://github.com/ratschlab/aestetik/pull/12
# first effect: step 0
# names: loader0, loader1
# family: data
# detectable: yes the samples of the validation loader are among those of the training loader

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class DataModule:
    def __init__(self, seed, fixed):
        draw = torch.Generator().manual_seed(seed)
        cells = torch.randn(200, 16, generator=draw)
        self.dataset = TensorDataset(cells, torch.randint(3, (200,), generator=draw))
        self.train_dataset, self.val_dataset = random_split(self.dataset, [140, 60], generator=draw)
        self.fixed = fixed

    def train_dataloader(self):
        return DataLoader(self.train_dataset if self.fixed else self.dataset, batch_size=20, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val_dataset, batch_size=60)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    data = DataModule(args.seed, args.fixed)
    model = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    train, held = data.train_dataloader(), data.val_dataloader()
    step = epoch = 0
    while step < args.steps:
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == args.steps:
                break
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum().item() for x, y in held)
        model.train()
        print(f"epoch {epoch} accuracy on held-out noise {right / 60:.3f}")
        epoch += 1


if __name__ == "__main__":
    main()
