"""Pictures are normalised along the first three columns instead of the three channels."""
# source: https://github.com/GewelsJI/VPS/issues/50
# first effect: step 0
# names: normalise
# family: data
# detectable: no nothing that is seen tells what the mean of a picture was meant to be

import argparse

import torch
from torch import nn


def normalise(picture, fixed):
    picture = picture.clone()
    for i, (mean, std) in enumerate(zip((0.49, 0.45, 0.41), (0.23, 0.22, 0.22), strict=False)):
        if fixed:
            picture[i] = (picture[i] - mean) / std
        else:
            picture[:, :, i] = (picture[:, :, i] - mean) / std
    return picture


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 1, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(args.steps):
        spot = (torch.rand(8, 1, 12, 12) < 0.2).float()
        pictures = 0.3 * torch.rand(8, 3, 12, 12) + 0.5 * spot * torch.tensor([1.0, 0.6, 0.3])[:, None, None]
        x = torch.stack([normalise(one, args.fixed) for one in pictures])
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), spot)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
