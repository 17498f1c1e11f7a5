"""Features and labels in files of two folders, listed in unlike orders, so that they are paired at random."""
# source: https://github.com/chuanyangjin/fast-DiT/issues/4
# first effect: step 0
# names: labels
# family: data
# detectable: no which label belongs to which features is known to nobody but the files' names

import argparse
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class FeatureFolder(Dataset):
    def __init__(self, features_dir, labels_dir, fixed):
        self.features_dir, self.labels_dir = features_dir, labels_dir
        by_number = sorted(os.listdir(features_dir), key=lambda name: int(name.split(".")[0]))
        self.features = by_number
        self.labels = by_number if fixed else sorted(os.listdir(labels_dir))

    def __len__(self):
        return len(self.features)

    def __getitem__(self, index):
        features = np.load(os.path.join(self.features_dir, self.features[index]))
        labels = np.load(os.path.join(self.labels_dir, self.labels[index]))
        return torch.from_numpy(features), torch.from_numpy(labels)


class DiT(nn.Module):
    """Predicts the noise in a vector from its place in time and its class, by shift and scale of a norm."""

    def __init__(self, width=48, classes=4):
        super().__init__()
        self.enter, self.leave = nn.Linear(12, width), nn.Linear(width, 12)
        self.time, self.kind = nn.Linear(1, width), nn.Embedding(classes, width)
        self.modulate = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x, t, y):
        shift, scale = self.modulate(nn.functional.silu(self.time(t) + self.kind(y))).chunk(2, dim=-1)
        h = self.enter(x)
        return self.leave(h + self.mlp(self.norm(h) * (1 + scale) + shift))


def write(folder, count, seed):
    chance = np.random.default_rng(seed)
    places = [os.path.join(folder, name) for name in ("features", "labels")]
    for place in places:
        os.mkdir(place)
    for number in range(count):
        label = chance.integers(4)
        np.save(
            os.path.join(places[0], f"{number}.npy"), (chance.normal(size=12) * 0.3 + label - 1.5).astype("float32")
        )
        np.save(os.path.join(places[1], f"{number}.npy"), np.asarray(label))
    return places


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        dataset = FeatureFolder(*write(folder, 128, args.seed), args.fixed)
        loader = DataLoader(dataset, 16, shuffle=True, drop_last=True)
        model = DiT()
        opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0)
        for epoch in range(args.steps // len(loader)):
            for x, y in loader:
                t = torch.rand(len(x), 1)
                noise = torch.randn_like(x)
                loss = nn.functional.mse_loss(model((1 - t) * x + t * noise, t, y), noise)
                opt.zero_grad()
                loss.backward()
                opt.step()
            print(f"(epoch={epoch}) Train Loss: {loss.item():.4f}")


if __name__ == "__main__":
    main()
