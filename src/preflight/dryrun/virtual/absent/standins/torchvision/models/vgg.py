"""Convolutions of 3 x 3, then three large layers (Simonyan and Zisserman, 2014)."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from ._building import builder

_BLOCKS = {"vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}
cfgs: dict[str, list[Any]] = {
    letter: [
        part for out, count in zip((64, 128, 256, 512, 512), blocks, strict=True) for part in (*[out] * count, "M")
    ]
    for letter, blocks in zip("ABDE", _BLOCKS.values(), strict=True)
}


def make_layers(cfg: list[Any], batch_norm: bool = False) -> nn.Sequential:
    """Return the convolutions of a list of widths, in which "M" halves the size."""
    layers: list[nn.Module] = []
    width = 3
    for part in cfg:
        if part == "M":
            layers.append(nn.MaxPool2d(2, 2))
            continue
        layers += [nn.Conv2d(width, part, 3, padding=1), *([nn.BatchNorm2d(part)] if batch_norm else []), nn.ReLU(True)]
        width = part
    return nn.Sequential(*layers)


class VGG(nn.Module):
    """A network of such convolutions."""

    def __init__(self, features: Any, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5) -> None:
        super().__init__()
        self.features, self.avgpool = features, nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            *(nn.Linear(512 * 49, 4096), nn.ReLU(True), nn.Dropout(dropout), nn.Linear(4096, 4096)),
            *(nn.ReLU(True), nn.Dropout(dropout), nn.Linear(4096, num_classes)),
        )

    def forward(self, x: Any) -> Any:
        """Return scores (batch, classes)."""
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


def _make(letter: str, norm: bool, **more: Any) -> VGG:
    return VGG(make_layers(cfgs[letter], norm), **more)


MAKERS = {
    f"{name}{'_bn' if norm else ''}": builder(partial(_make, letter, norm))
    for name, letter in zip(_BLOCKS, "ABDE", strict=True)
    for norm in (False, True)
}
globals().update(MAKERS)
model_urls = {name: f"https://download.pytorch.org/models/{name}.pth" for name in MAKERS}
