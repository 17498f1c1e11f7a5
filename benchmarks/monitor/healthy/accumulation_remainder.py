"""Gradient accumulation over four micro-batches with an incomplete last group in each epoch, scaled by its true size."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--steps", type=int, default=36, help="optimizer steps")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--accum", type=int, default=4)
    return parser.parse_args()


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    inputs = torch.randn(344, 12)
    targets = torch.sin(inputs[:, :1] * 2) + inputs[:, 1:2] * inputs[:, 2:3]
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=8, shuffle=True)  # 43 batches: 10 groups and 3 left
    model = nn.Sequential(
        nn.Linear(12, args.size), nn.SiLU(), nn.Linear(args.size, args.size), nn.SiLU(), nn.Linear(args.size, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=12, gamma=0.7)

    updates = 0
    optimizer.zero_grad()
    while updates < args.steps:
        last_full = len(loader) - len(loader) % args.accum
        for i, (x, y) in enumerate(loader):
            group = args.accum if i < last_full else len(loader) - last_full
            loss = nn.functional.mse_loss(model(x), y)
            (loss / group).backward()
            if (i + 1) % args.accum == 0 or i + 1 == len(loader):
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
                updates += 1
                if updates % 6 == 0:
                    print(
                        f"update {updates:3d} group of {group} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.5f}"
                    )
                if updates == args.steps:
                    break


if __name__ == "__main__":
    main()
