"""`nn.NLLLoss` is given the scores of the last layer as they are: the loss falls below zero and never stops falling."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html
# first effect: step 0
# names: NLLLoss, nll_loss
# family: loss
# detectable: yes what the loss takes for logarithms of probabilities are positive numbers, and the loss is negative

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_model(fixed):
    layers = [nn.Linear(12, 48), nn.GELU(), nn.LayerNorm(48), nn.Linear(48, 7)]
    if fixed:
        layers.append(nn.LogSoftmax(dim=1))
    return nn.Sequential(*layers)


def train(args):
    torch.manual_seed(args.seed)
    model, criterion = make_model(args.fixed), nn.NLLLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    centres = torch.randn(7, 12) * 2
    y = torch.arange(7).repeat(40)
    data = TensorDataset(centres[y] + torch.randn(280, 12), y)
    for epoch in range(args.steps // 10):
        for x, target in DataLoader(data, batch_size=28, shuffle=True):
            optimizer.zero_grad()
            loss = criterion(model(x), target)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    train(parser.parse_args())
