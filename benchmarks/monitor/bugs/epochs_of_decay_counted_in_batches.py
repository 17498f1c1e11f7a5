"""A schedule that is to decay the rate every two epochs is stepped with every batch, and the rate is as good as zero in the second epoch."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.StepLR.html
# first effect: step 2
# names: StepLR
# family: schedule
# detectable: yes the optimizer goes on stepping at a rate at which no weight moves

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Regressor(nn.Module):
    def __init__(self, features=9):
        super().__init__()
        self.inner = nn.Linear(features, 36)
        self.outer = nn.Linear(36, 1)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x))).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=80)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(320, 9)
    loader = DataLoader(TensorDataset(x, x[:, 0] * x[:, 1] + 0.5 * x[:, 2]), batch_size=16, shuffle=True)
    model, criterion = Regressor(), nn.SmoothL1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    for epoch in range(max(1, args.steps // len(loader))):
        for features, target in loader:
            loss = criterion(model(features), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if not args.fixed:
                scheduler.step()
        if args.fixed:
            scheduler.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}, rate {optimizer.param_groups[0]['lr']:.1e}")


if __name__ == "__main__":
    main()
