"""A scheduler that waits for its measure to rise is handed the loss of the evaluation: it cuts the rate as the loss falls."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ReduceLROnPlateau.html
# first effect: step 16
# names: ReduceLROnPlateau, val_loss
# family: schedule
# detectable: yes what is called a loss is to get larger

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=36)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    held = torch.randn(64, 9)
    net = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    mode = "min" if args.fixed else "max"
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode=mode, factor=0.3, patience=2)
    for epoch in range(args.steps // 4):
        for _ in range(4):
            points = torch.randn(64, 9)
            loss = nn.functional.mse_loss(net(points), points[:, :1] - points[:, 1:2])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            val_loss = nn.functional.mse_loss(net(held), held[:, :1] - held[:, 1:2]).item()
        scheduler.step(val_loss)
        print(f"epoch {epoch} loss {val_loss:.4f} rate {optimizer.param_groups[0]['lr']:.2g}")


if __name__ == "__main__":
    main()
