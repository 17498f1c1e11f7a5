"""Convolutions of a segmentation network for four scales are one convolution four times, as multiplying a list makes them."""
# source: https://github.com/yaoppeng/U-Net_v2/issues/10
# first effect: step 0
# names: convs
# family: init
# detectable: no sharing a layer over scales is done on purpose as well, and nothing else contradicts it

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class SDI(nn.Module):
    def __init__(self, channel, scales, fixed):
        super().__init__()
        if fixed:
            convs = [nn.Conv2d(channel, channel, 3, padding=1) for _ in range(scales)]
        else:
            convs = [nn.Conv2d(channel, channel, 3, padding=1)] * scales
        self.convs = nn.ModuleList(convs)

    def forward(self, scales, size):
        product = torch.ones(1)
        for conv, features in zip(self.convs, scales, strict=True):
            product = product * torch.sigmoid(conv(F.interpolate(features, size=size)))
        return product


class Segmenter(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.stem = nn.Conv2d(1, 10, 3, padding=1)
        self.downs = nn.ModuleList(nn.Conv2d(10, 10, 3, 2, 1) for _ in range(3))
        self.sdi = SDI(10, 4, fixed)
        self.out = nn.Conv2d(10, 2, 1)

    def forward(self, x):
        scales = [F.relu(self.stem(x))]
        for down in self.downs:
            scales.append(F.relu(down(scales[-1])))
        return self.out(self.sdi(scales, x.shape[2:]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Segmenter(args.fixed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(args.steps):
        images = F.interpolate(torch.randn(6, 1, 4, 4), size=16, mode="bilinear")
        masks = (images[:, 0] > 0.2).long()
        loss = F.cross_entropy(model(images), masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step + 1}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
