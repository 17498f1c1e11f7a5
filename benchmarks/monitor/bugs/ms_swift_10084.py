"""The last, incomplete group of micro-batches of an epoch is divided by the full number: its step is half as large as it should be."""
# source: https://github.com/modelscope/ms-swift/pull/10084
# first effect: step 2
# names: backward
# family: loss
# detectable: no a factor of a loss is not to be told from a weight that was meant

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WINDOW = 4


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=18)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(80, 5)
    loader = DataLoader(TensorDataset(x, x.prod(1, keepdim=True)), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(5, 32), nn.SiLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(max(1, args.steps // 3)):
        for number, (inputs, target) in enumerate(loader):
            left = len(loader) - number // WINDOW * WINDOW
            window = min(WINDOW, left) if args.fixed else WINDOW
            loss = nn.functional.mse_loss(model(inputs), target)
            (loss / window).backward()
            if (number + 1) % WINDOW == 0 or number + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
