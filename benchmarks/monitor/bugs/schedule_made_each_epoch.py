"""The schedule is made inside `train_epoch`: the rate goes back to its beginning at each epoch and never decays."""
# source: https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate
# first effect: step 8
# names: CosineAnnealingLR
# family: schedule
# detectable: yes a new schedule over the same optimizer puts the rate back, again and again

import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR


def train_epoch(model, optimizer, scheduler, steps, epochs):
    if scheduler is None:
        scheduler = CosineAnnealingLR(optimizer, T_max=epochs * steps)
    for _ in range(steps):
        x = torch.randn(24, 1, 10, 10)
        y = (x[:, 0, :5].mean((1, 2)) > x[:, 0, 5:].mean((1, 2))).long()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    epochs = args.steps // 8
    scheduler = CosineAnnealingLR(optimizer, T_max=8 * epochs) if args.fixed else None
    for epoch in range(epochs):
        loss = train_epoch(model, optimizer, scheduler, 8, epochs)
        print(f"epoch {epoch} loss {loss:.4f} rate {optimizer.param_groups[0]['lr']:.5f}")


if __name__ == "__main__":
    main()
