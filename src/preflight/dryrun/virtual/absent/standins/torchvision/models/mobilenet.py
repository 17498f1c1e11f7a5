"""MobileNetV2."""

from __future__ import annotations

from typing import Any

from torch import nn


class _Inverted(nn.Module):
    def __init__(self, inner: int, out: int, stride: int, ratio: int) -> None:
        super().__init__()
        wide, layers = inner * ratio, list[nn.Module]()
        if ratio != 1:
            layers.append(nn.Sequential(nn.Conv2d(inner, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(True)))
        layers.append(
            nn.Sequential(
                nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(True)
            )
        )
        self.conv = nn.Sequential(*layers, nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out))
        self.same = stride == 1 and inner == out

    def forward(self, x: Any) -> Any:
        """Add where the sizes are the same."""
        return x + self.conv(x) if self.same else self.conv(x)


class MobileNetV2(nn.Module):
    """Inverted residuals (Sandler and others, 2018)."""

    def __init__(self, num_classes: int = 1000, **_: Any) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6(True))
        ]
        width = 32
        stages = (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        )
        for ratio, out, count, stride in stages:
            for number in range(count):
                layers.append(_Inverted(width, out, 1 if number else stride, ratio))
                width = out
        layers.append(nn.Sequential(nn.Conv2d(width, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6(True)))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, num_classes))

    def forward(self, x: Any) -> Any:
        """Return scores (batch, classes)."""
        return self.classifier(self.features(x).mean((2, 3)))
