"""Accuracy on the training data and on held-out data after each epoch, both in evaluation mode, to see the gap between them."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


@torch.no_grad()
def score(model, loader):
    model.eval()
    right = count = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
        count += len(y)
    model.train()
    return right / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(240, 12)
    data = TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())
    train, held = random_split(data, [180, 60])
    loader = DataLoader(train, batch_size=18, shuffle=True)
    scoring = {"train": DataLoader(train, batch_size=90), "held out": DataLoader(held, batch_size=60)}
    model = nn.Sequential(
        nn.Linear(12, args.size), nn.BatchNorm1d(args.size), nn.ReLU(), nn.Dropout(0.2), nn.Linear(args.size, 2)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(max(1, args.steps // 10)):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        scores = ", ".join(f"{word} {score(model, one):.3f}" for word, one in scoring.items())
        print(f"epoch {epoch} loss {loss.item():.4f} {scores}")


if __name__ == "__main__":
    main()
