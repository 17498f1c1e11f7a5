"""A one-cycle schedule that was made for all batches is stepped once an epoch and never leaves the beginning of its warm-up."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.OneCycleLR.html
# first effect: step 1
# names: OneCycleLR
# family: schedule
# detectable: yes the schedule was made for as many steps as the training has, and has made few of them at its end

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=72)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(192, 1, 8, 8)
    loader = DataLoader(TensorDataset(x, x.mean((1, 2, 3)).gt(0).long()), batch_size=16, shuffle=True)
    epochs = max(2, args.steps // len(loader))
    model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.2, epochs=epochs, steps_per_epoch=len(loader), cycle_momentum=False
    )
    for epoch in range(epochs):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if args.fixed:
                scheduler.step()
        if not args.fixed:
            scheduler.step()
        print(f"epoch {epoch} loss {loss.item():.4f} rate {optimizer.param_groups[0]['lr']:.4f}")


if __name__ == "__main__":
    main()
