"""Densely connected networks (Huang and others, 2016)."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ._building import builder


class _DenseLayer(nn.Module):
    def __init__(self, inner: int, growth: int, bottleneck: int, drop: float) -> None:
        super().__init__()
        self.norm1, self.relu1 = nn.BatchNorm2d(inner), nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(inner, bottleneck * growth, 1, bias=False)
        self.norm2, self.relu2 = nn.BatchNorm2d(bottleneck * growth), nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(bottleneck * growth, growth, 3, padding=1, bias=False)
        self.drop = drop

    def forward(self, parts: Any) -> Any:
        """Return the new channels."""
        y = self.conv1(self.relu1(self.norm1(torch.cat(parts, 1))))
        y = self.conv2(self.relu2(self.norm2(y)))
        return F.dropout(y, self.drop, self.training) if self.drop > 0 else y


class _DenseBlock(nn.ModuleDict):
    def __init__(self, count: int, inner: int, growth: int, bottleneck: int, drop: float) -> None:
        super().__init__()
        for number in range(count):
            self.add_module(f"denselayer{number + 1}", _DenseLayer(inner + number * growth, growth, bottleneck, drop))

    def forward(self, x: Any) -> Any:
        """Return the input with the channels of all layers."""
        parts = [x]
        for layer in self.values():
            parts.append(layer(parts))
        return torch.cat(parts, 1)


class DenseNet(nn.Module):
    """A densely connected network."""

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: Any = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        self.features = nn.Sequential()
        width = num_init_features
        self.features.add_module("conv0", nn.Conv2d(3, width, 7, 2, 3, bias=False))
        self.features.add_module("norm0", nn.BatchNorm2d(width))
        self.features.add_module("relu0", nn.ReLU(inplace=True))
        self.features.add_module("pool0", nn.MaxPool2d(3, 2, 1))
        for number, count in enumerate(block_config, 1):
            block = _DenseBlock(count, width, growth_rate, bn_size, drop_rate)
            self.features.add_module(f"denseblock{number}", block)
            width += count * growth_rate
            if number < len(block_config):
                parts = (nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.Conv2d(width, width // 2, 1, bias=False))
                self.features.add_module(f"transition{number}", nn.Sequential(*parts, nn.AvgPool2d(2, 2)))
                width //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(width))
        self.classifier = nn.Linear(width, num_classes)

    def forward(self, x: Any) -> Any:
        """Return scores (batch, classes)."""
        y = F.relu(self.features(x), inplace=True)
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(y, (1, 1)), 1))


_SHAPES = {
    "densenet121": (32, (6, 12, 24, 16), 64),
    "densenet161": (48, (6, 12, 36, 24), 96),
    "densenet169": (32, (6, 12, 32, 32), 64),
    "densenet201": (32, (6, 12, 48, 32), 64),
}
MAKERS = {name: builder(partial(DenseNet, *shape)) for name, shape in _SHAPES.items()}
globals().update(MAKERS)
