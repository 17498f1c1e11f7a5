"""Convolutional networks, written out: a small one, ResNet-18 and ResNet-50, a U-Net. python convolution.py CASE."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from training import DEVICE, checkpointed, named, train

CASES: dict[str, dict[str, Any]] = {
    "small": {"net": "small", "batch": 64, "size": 32, "optimizer": "momentum"},
    "small-amp-fp16": {"net": "small", "batch": 64, "size": 32, "optimizer": "momentum", "precision": "amp-fp16"},
    "small-evaluation": {"net": "small", "batch": 64, "size": 32, "optimizer": "adam", "evaluate": True},
    "resnet18": {"net": "resnet18", "batch": 8, "size": 64, "optimizer": "momentum"},
    "resnet50": {"net": "resnet50", "batch": 4, "size": 64, "optimizer": "momentum"},
    "resnet50-amp-bf16": {"net": "resnet50", "batch": 2, "size": 64, "optimizer": "momentum", "precision": "amp-bf16"},
    "resnet50-checkpointed": {"net": "resnet50", "batch": 4, "size": 64, "optimizer": "adamw", "recompute": True},
    "unet": {"net": "unet", "batch": 2, "size": 64, "optimizer": "adam"},
    "unet-amp-bf16": {"net": "unet", "batch": 1, "size": 64, "optimizer": "adamw", "precision": "amp-bf16"},
}


class Block(nn.Module):
    """A residual block: two convolutions, or three with a bottleneck."""

    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        outputs = width * 4 if bottleneck else width
        shapes = (
            [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
            if bottleneck
            else [(inputs, width, 3, stride), (width, width, 3, 1)]
        )
        layers: list[nn.Module] = []
        for a, b, kernel, step in shapes:
            layers += [nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers[:-1])
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return relu(body(x) + skip(x))."""
        return F.relu(self.body(x) + self.skip(x), inplace=True)


class ResNet(nn.Module):
    """A residual network."""

    def __init__(self, depths: tuple[int, ...], bottleneck: bool, recompute: bool = False) -> None:
        super().__init__()
        self.recompute = recompute
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        blocks: list[nn.Module] = []
        inputs = 64
        for stage, depth in enumerate(depths):
            width = 64 << stage
            for at in range(depth):
                blocks.append(Block(inputs, width, 2 if at == 0 and stage else 1, bottleneck))
                inputs = width * 4 if bottleneck else width
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(inputs, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits of a thousand classes."""
        x = checkpointed(self.blocks, self.stem(x), self.recompute)
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class UNet(nn.Module):
    """Four levels of double convolutions with group norm, upsampling and concatenation."""

    def __init__(self, width: int = 32, levels: int = 4) -> None:
        super().__init__()
        widths = [width << level for level in range(levels)]
        self.down = nn.ModuleList(self.double(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.up = nn.ModuleList(self.double(b + a, a) for a, b in pairwise(widths))
        self.last = nn.Conv2d(width, 2, 1)

    @staticmethod
    def double(inputs: int, outputs: int) -> nn.Sequential:
        """Return two convolutions."""
        layers: list[nn.Module] = []
        for a in (inputs, outputs):
            layers += [nn.Conv2d(a, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU()]
        return nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a map of logits."""
        kept = []
        for level, part in enumerate(self.down):
            x = part(F.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for part, skip in zip(reversed(self.up), reversed(kept[:-1]), strict=True):
            x = part(torch.cat((skip, F.interpolate(x, scale_factor=2, mode="bilinear")), 1))
        return self.last(x)


def small() -> nn.Module:
    """Return a network of three convolutions."""
    layers: list[nn.Module] = []
    for a, b in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.2), nn.Linear(128 * 16, 10))


def main(net: str, batch: int, size: int, recompute: bool = False, **how: Any) -> None:
    """Train on random pictures."""
    model = {
        "small": small,
        "resnet18": lambda: ResNet((2, 2, 2, 2), False),
        "resnet50": lambda: ResNet((3, 4, 6, 3), True, recompute),
        "unet": UNet,
    }[net]()

    def batches() -> tuple[torch.Tensor, torch.Tensor]:
        shape = (batch, size, size) if net == "unet" else (batch,)
        classes = 2 if net == "unet" else 10
        return torch.randn(batch, 3, size, size, device=DEVICE), torch.randint(0, classes, shape, device=DEVICE)

    train(model, batches, lambda model, x, y: F.cross_entropy(model(x), y), **how)


if __name__ == "__main__":
    main(**named(CASES))
