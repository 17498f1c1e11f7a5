"""The augmentation is applied once and the result used for both views: each sample is its own positive, bit by bit."""
# source: https://docs.lightly.ai/self-supervised-learning/examples/simclr.html
# first effect: step 0
# names: encoder
# family: data
# detectable: yes the two passes that a contrastive loss compares are given the very same tensor

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(30, 48), nn.ReLU(), nn.Linear(48, 16))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


def augment(x):
    return x * (torch.rand_like(x) > 0.2) + 0.1 * torch.randn_like(x)


def info_nce(a, b, temperature=0.2):
    scores = a @ b.T / temperature
    target = torch.arange(len(a))
    return (F.cross_entropy(scores, target) + F.cross_entropy(scores.T, target)) / 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    data = torch.randn(512, 30)
    encoder = Encoder()
    optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    for step in range(args.steps):
        x = data[torch.randint(512, (48,))]
        first = augment(x)
        second = augment(x) if args.fixed else first
        loss = info_nce(encoder(first), encoder(second))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
