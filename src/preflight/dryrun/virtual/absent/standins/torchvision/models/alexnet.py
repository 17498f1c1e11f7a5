"""AlexNet."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn


class AlexNet(nn.Module):
    """Five convolutions, three large layers (Krizhevsky, 2014)."""

    def __init__(self, num_classes: int = 1000, **_: Any) -> None:
        super().__init__()
        relu = partial(nn.ReLU, inplace=True)
        self.features = nn.Sequential(
            *(nn.Conv2d(3, 64, 11, 4, 2), relu(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, padding=2), relu()),
            *(nn.MaxPool2d(3, 2), nn.Conv2d(192, 384, 3, padding=1), relu(), nn.Conv2d(384, 256, 3, padding=1)),
            *(relu(), nn.Conv2d(256, 256, 3, padding=1), relu(), nn.MaxPool2d(3, 2)),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            *(nn.Dropout(), nn.Linear(256 * 36, 4096), relu(), nn.Dropout()),
            *(nn.Linear(4096, 4096), relu(), nn.Linear(4096, num_classes)),
        )

    def forward(self, x: Any) -> Any:
        """Return scores (batch, classes)."""
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))
