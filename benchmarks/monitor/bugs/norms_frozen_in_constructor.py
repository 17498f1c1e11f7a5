"""The constructor puts each batch normalisation into evaluation mode; `model.train()` before the first epoch undoes it."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.train
# first effect: step 0
# names: BatchNorm, train
# family: mode
# detectable: yes layers that were put into evaluation mode by themselves are in training mode when the training begins

import argparse

import torch
from torch import nn


class Tuned(nn.Module):
    """A network with statistics of an earlier training, of which all weights go on to be trained."""

    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        self.body = nn.Sequential(
            nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU()
        )
        self.head = nn.Linear(32, 1)
        for layer in self.norms():
            layer.running_mean.normal_(0, 0.3)
            layer.running_var.uniform_(0.5, 2.0)
        self.freeze_norms()

    def norms(self):
        return [layer for layer in self.modules() if isinstance(layer, nn.BatchNorm1d)]

    def freeze_norms(self):
        for layer in self.norms():
            layer.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.fixed:
            self.freeze_norms()
        return self

    def forward(self, x):
        return self.head(self.body(x)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Tuned(args.fixed)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    for epoch in range(args.steps // 10):
        model.train()
        for _ in range(10):
            x = torch.randn(8, 12) + 0.5
            loss = nn.functional.smooth_l1_loss(model(x), x[:, 0] * x[:, 1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
