"""The collate function gives smoothed labels, and the loss smooths them once more."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
# first effect: step 0
# names: label_smoothing
# family: loss
# detectable: yes targets that a loss is to smooth have the form of smoothed ones

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES, SMOOTHING = 6, 0.1


def collate(samples):
    x = torch.stack([one for one, _ in samples])
    labels = torch.stack([label for _, label in samples])
    return x, F.one_hot(labels, CLASSES) * (1 - SMOOTHING) + SMOOTHING / CLASSES


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(192, 10)
    data = TensorDataset(x, (x @ torch.randn(10, CLASSES)).argmax(1))
    loader = DataLoader(data, batch_size=32, shuffle=True, collate_fn=collate)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.0 if args.fixed else SMOOTHING)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(args.steps // 6):
        for features, targets in loader:
            loss = criterion(model(features), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
