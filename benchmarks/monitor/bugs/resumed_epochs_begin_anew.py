"""Weights and optimizer come back from the checkpoint, but the loop over epochs begins at nought again."""
# source: https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html
# first effect: step 0
# names: epoch, save, load
# family: checkpoint
# detectable: yes the counter in the next checkpoint is lower than that of the one that was read

import argparse
import os
import subprocess
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PATH = "last.pt"


def train(args, resume):
    torch.manual_seed(args.seed)
    x = torch.randn(256, 12)
    dataset = TensorDataset(x, (x[:, :3].sum(1) > x[:, 3:6].sum(1)).long())
    model = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    first, epochs = 0, max(2, args.steps // 8)
    if resume:
        checkpoint = torch.load(PATH)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        if args.fixed:
            first = checkpoint["epoch"] + 1
    for epoch in range(first, epochs if resume else epochs // 2):
        order = torch.Generator().manual_seed(100 * args.seed + epoch)
        for features, label in DataLoader(dataset, 32, shuffle=True, generator=order):
            loss = nn.functional.cross_entropy(model(features), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, PATH)
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--first-half", action="store_true", help="stop there")
    args = parser.parse_args()
    if not args.first_half:
        subprocess.run([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--first-half"], check=True)
    train(args, resume=not args.first_half)
