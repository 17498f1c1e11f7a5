"""Self-supervised rotation pretraining, then a linear probe on frozen features that are computed once under no_grad."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def encoder(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, stride=2, padding=1),
        nn.InstanceNorm2d(width, affine=True),
        nn.LeakyReLU(0.1),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
        nn.InstanceNorm2d(2 * width, affine=True),
        nn.LeakyReLU(0.1),
        nn.Flatten(),
    )


def rotate(batch):
    turns = torch.randint(0, 4, (len(batch),))
    return torch.stack([torch.rot90(x, int(k), (1, 2)) for x, k in zip(batch, turns)]), turns


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60, help="half for pretraining, half for the probe")
    parser.add_argument("--size", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    prototypes = torch.randn(3, 1, 12, 12)
    labels = torch.randint(0, 3, (240,))
    images = prototypes[labels] + 0.7 * torch.randn(240, 1, 12, 12)

    body = encoder(args.size)
    pretext = nn.Linear(2 * args.size * 9, 4)
    opt = torch.optim.Adamax([*body.parameters(), *pretext.parameters()], lr=5e-3)
    for step in range(args.steps // 2):
        x, turns = rotate(images[torch.randint(0, 240, (32,))])
        loss = F.cross_entropy(pretext(body(x)), turns)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(f"pretext {step} loss {loss.item():.4f}")

    body.eval()
    with torch.no_grad():
        features = body(images)
    probe = nn.Linear(features.shape[1], 3)
    loader = DataLoader(TensorDataset(features[:200], labels[:200]), batch_size=20, shuffle=True)
    opt = torch.optim.SGD(probe.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    done = 0
    while done < args.steps - args.steps // 2:
        for x, y in loader:
            loss = F.cross_entropy(probe(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            done += 1
            if done % 10 == 0:
                print(f"probe {done} loss {loss.item():.4f}")
            if done == args.steps - args.steps // 2:
                break
    with torch.no_grad():
        print("held out", (probe(features[200:]).argmax(1) == labels[200:]).float().mean().item())


if __name__ == "__main__":
    main()
