"""A one-cycle schedule is made for the optimizer, which begins at a small share of the rate, and is never stepped."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.OneCycleLR.html
# first effect: step 1
# names: OneCycleLR, scheduler.step
# family: schedule
# detectable: yes a schedule that was made is not stepped in several passes through the data, which is known at the end of the run

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Tagger(nn.Module):
    def __init__(self, features=12, classes=5):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 40), nn.GELU(), nn.LayerNorm(40))
        self.head = nn.Linear(40, classes)

    def forward(self, x):
        return self.head(self.body(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(192, 12)
    loader = DataLoader(TensorDataset(x, x[:, :5].argmax(1)), batch_size=24, shuffle=True)
    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    epochs = max(1, args.steps // len(loader))
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=epochs * len(loader))
    for epoch in range(epochs):
        for features, labels in loader:
            loss = F.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if args.fixed:
                scheduler.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
