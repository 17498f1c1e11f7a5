"""Shadow models that end in a softmax and are trained by a loss that has one of its own."""
# source: https://github.com/privacytrustlab/ml_privacy_meter/issues/95
# first effect: step 0
# names: CrossEntropyLoss, cross_entropy, Softmax
# family: loss
# detectable: yes what the loss takes for scores are probabilities

import argparse

import torch
from torch import nn


def get_model(fixed):
    layers = [nn.Linear(30, 64), nn.Tanh(), nn.Linear(64, 6)]
    return nn.Sequential(*layers, *([] if fixed else [nn.Softmax(dim=1)]))


def purchases(count, generator):
    x = (torch.rand(count, 30, generator=generator) < 0.3).float()
    return x, x.view(count, 6, 5).sum(2).argmax(1)


def fit(model, x, y, epochs, size):
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(size):
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x, y = purchases(400, torch.Generator().manual_seed(args.seed))
    for shadow in range(2):
        half = torch.randperm(400)[:200]
        loss = fit(get_model(args.fixed), x[half], y[half], args.steps // 16, 25)
        print(f"shadow {shadow}: loss {loss:.4f}")


if __name__ == "__main__":
    main()
