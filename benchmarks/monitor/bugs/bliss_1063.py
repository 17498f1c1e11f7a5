"""A loss for each pixel is gated by a mask with one dimension more: every pixel is weighted by the gates of its whole column."""
# source: https://github.com/prob-ml/bliss/pull/1063
# first effect: step 0
# names: loss
# family: loss
# detectable: yes the losses of the pixels and their gates have shapes that are stretched to a third one

import argparse

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 3, padding=1))

    def forward(self, image):
        return self.net(image).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    encoder = Encoder()
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-2)
    for step in range(args.steps):
        there = (torch.rand(8, 8, 8, 1) < 0.2).float()
        flux = there.squeeze(-1) * (1 + torch.rand(8, 8, 8))
        image = flux[:, None] + 0.1 * torch.randn(8, 1, 8, 8)
        each = (encoder(image) - flux).square()
        gate = there.squeeze(-1) if args.fixed else there
        loss = (each * gate).sum() / gate.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
