"""Freezing puts the batch normalisation of the encoder into evaluation mode once; the next `model.train()` puts it back."""
# source: https://github.com/pgniewko/gt-pyg/issues/112
# first effect: step 0
# names: encoder.1.running_mean, encoder.1.running_var, BatchNorm1d, train
# family: mode
# detectable: yes running statistics move in a module all of whose parameters are frozen

import argparse

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed, self.frozen = fixed, False
        self.encoder = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU())
        self.head = nn.Linear(32, 1)
        with torch.no_grad():
            self.encoder[1].running_mean.normal_()
            self.encoder[1].running_var.uniform_(0.5, 2.0)

    def freeze(self):
        self.frozen = True
        self.encoder.requires_grad_(False)
        self.encoder.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.fixed and self.frozen:
            self.encoder.eval()
        return self

    def forward(self, x):
        return self.head(self.encoder(x)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Net(args.fixed)
    model.freeze()
    optimizer = torch.optim.Adam(model.head.parameters(), lr=1e-2)
    for epoch in range(args.steps // 10):
        model.train()
        for _ in range(10):
            x = 1.0 + torch.randn(48, 10)
            loss = nn.functional.mse_loss(model(x), x[:, 0] + x[:, 1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f} mean of the statistics {model.encoder[1].running_mean.mean():.4f}")


if __name__ == "__main__":
    main()
