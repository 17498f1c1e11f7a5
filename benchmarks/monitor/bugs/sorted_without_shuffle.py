"""The samples are sorted by class and the training loader does not shuffle: for a long time the model sees one class only."""
# source: https://github.com/Deci-AI/super-gradients/issues/416
# first effect: step 0
# names: DataLoader, shuffle
# family: data
# detectable: yes every batch has a single label, and the loader of a training run is sequential

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class FolderLike(Dataset):
    """As an image folder lists its files: class after class."""

    def __init__(self, classes=4, per_class=160):
        self.targets = [c for c in range(classes) for _ in range(per_class)]
        centers = 1.5 * torch.randn(classes, 20)
        self.samples = centers[torch.tensor(self.targets)] + torch.randn(len(self.targets), 20)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        return self.samples[index], self.targets[index]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    dataloader_params = {"batch_size": 32}
    if args.fixed:
        dataloader_params["shuffle"] = True
    loader = DataLoader(FolderLike(), **dataloader_params)
    model = nn.Sequential(nn.Linear(20, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    done = 0
    while done < args.steps:
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if done % 5 == 0:
                print(f"step {done} loss {loss.item():.4f}")
            done += 1
            if done == args.steps:
                break
