"""``random_split`` without a seed: the resumed run evaluates on what its weights were trained on."""
# source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.random_split
# first effect: step 0
# names: random_split, loader1
# family: data
# detectable: yes the run is resumed, and nothing has seeded the generator that its parts are drawn from

import argparse
import os
import subprocess
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--first-half", action="store_true", help="stop there")
    args = parser.parse_args()
    if not args.first_half:
        subprocess.run([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--first-half"], check=True)
    data = torch.Generator().manual_seed(args.seed)
    x = torch.randn(300, 8, generator=data)
    noisy = x[:, 0].sin() + x[:, 1] * x[:, 2] + 0.5 * torch.randn(300, generator=data)
    generator = torch.Generator().manual_seed(args.seed + 1) if args.fixed else None
    train, held = random_split(TensorDataset(x, noisy), [240, 60], generator=generator)
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    first, epochs = 0, max(2, args.steps // 10)
    if not args.first_half:
        state = torch.load("state.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epochs"]
    for epoch in range(first, epochs // 2 if args.first_half else epochs):
        model.train()
        for features, target in DataLoader(train, batch_size=24, shuffle=True):
            loss = nn.functional.mse_loss(model(features).squeeze(1), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            error = sum(nn.functional.mse_loss(model(a).squeeze(1), b).item() for a, b in DataLoader(held, 30)) / 2
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epochs": epoch + 1}, "state.pt")
        print(f"epoch {epoch} held out {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
