"""Labels of minus one and one go into a binary cross entropy with logits: the loss has no floor and sinks below zero."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html
# first effect: step 0
# names: BCEWithLogitsLoss, binary_cross_entropy_with_logits
# family: loss
# detectable: yes targets that should be probabilities lie outside of 0 and 1, and the loss is negative

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(240, 10)
    sign = torch.sign(x[:, 0] + x[:, 1] * x[:, 2])
    labels = (sign + 1) / 2 if args.fixed else sign
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    for epoch in range(args.steps // 10):
        for features, target in DataLoader(TensorDataset(x, labels), batch_size=24, shuffle=True):
            optimizer.zero_grad()
            loss = criterion(model(features).squeeze(1), target)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
