"""Samples and their labels mixed in pairs: a cross entropy of shares of classes that add up to one, smoothed and weighted by class."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    points = torch.randn(320, 12)
    classes = points[:, :5].argmax(-1)
    loader = DataLoader(TensorDataset(points[:256], classes[:256]), batch_size=16, shuffle=True)
    net = nn.Sequential(nn.Linear(12, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Dropout(0.1), nn.Linear(40, 5))
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3)
    criterion = nn.CrossEntropyLoss(
        weight=1 / torch.bincount(classes, minlength=5).float().div(64), label_smoothing=0.1
    )
    shares = torch.distributions.Beta(0.4, 0.4)
    done = 0
    while done < args.steps:
        net.train()
        for x, y in loader:
            marks = nn.functional.one_hot(y, 5).float()
            share, order = shares.sample(), torch.randperm(len(x))
            scores = net(share * x + (1 - share) * x[order])
            loss = criterion(scores, share * marks + (1 - share) * marks[order])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            if done == args.steps:
                break
        net.eval()
        with torch.no_grad():
            right = (net(points[256:]).argmax(-1) == classes[256:]).float().mean()
        print(f"step {done}: loss {loss.item():.3f}, held out {right.item():.2f}")


if __name__ == "__main__":
    main()
