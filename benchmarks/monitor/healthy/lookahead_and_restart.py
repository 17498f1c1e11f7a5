"""Weights that come back to their running average now and then, and a run that goes on from a checkpoint made halfway."""

import argparse
import copy
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build(size, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(10, size), nn.GELU(), nn.LayerNorm(size), nn.Linear(size, 3))
    return model, torch.optim.AdamW(model.parameters(), lr=5e-3)


def epoch(model, optimizer, loader, average):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.2)
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--size", type=int, default=24)
    args = parser.parse_args()

    draw = torch.Generator().manual_seed(args.seed)
    x = torch.randn(160, 10, generator=draw)
    data = TensorDataset(x, x[:, :3].argmax(dim=1))
    epochs = max(args.steps // 10, 2)
    model, optimizer = build(args.size, args.seed)
    average = copy.deepcopy(model)
    loader = DataLoader(data, batch_size=16, shuffle=True)
    for number in range(epochs // 2):
        print(f"epoch {number}: {epoch(model, optimizer, loader, average):.4f}")
        model.load_state_dict(average.state_dict())
    place = Path("halfway.pt")
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}
    torch.save({**state, "average": average.state_dict()}, place)

    model, optimizer = build(args.size, args.seed)
    state = torch.load(place)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    average.load_state_dict(state["average"])
    torch.set_rng_state(state["random"])
    for number in range(epochs // 2, epochs):
        print(f"epoch {number}: {epoch(model, optimizer, loader, average):.4f}")
        model.load_state_dict(average.state_dict())


if __name__ == "__main__":
    main()
