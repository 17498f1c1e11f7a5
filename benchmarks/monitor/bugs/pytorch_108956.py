"""A series of a single column is normalised over its columns: what comes out is zero for every sample, and only biases learn."""
# source: https://github.com/pytorch/pytorch/issues/108956
# first effect: step 0
# names: model, LayerNorm
# family: loss
# detectable: yes the model gives the same for all samples of a batch

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Encoder(nn.Module):
    def __init__(self, columns, width, fixed):
        super().__init__()
        self.norm = nn.BatchNorm1d(columns) if fixed else nn.LayerNorm(columns)
        self.layers = nn.Sequential(nn.Linear(columns, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.head = nn.Linear(width, 1)

    def forward(self, table):
        return self.head(self.layers(self.norm(table)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    table = 40 + 12 * torch.randn(640, 1)
    target = 0.02 * (table - 40).square() + 0.2 * torch.randn(640, 1)
    loader = DataLoader(TensorDataset(table, target), batch_size=32, shuffle=True)
    model = Encoder(1, 32, args.fixed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    step = 0
    while step < args.steps:
        for columns, wanted in loader:
            loss = nn.functional.mse_loss(model(columns), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == args.steps:
                break
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
