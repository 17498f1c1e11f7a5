"""SqueezeNet. Source: Iandola et al. 2016; names of the layers: torchvision."""

import torch
from torch import nn


class Fire(nn.Module):
    def __init__(self, into, squeezed, expanded):
        super().__init__()
        self.squeeze = nn.Conv2d(into, squeezed, 1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.squeeze_activation(self.squeeze(x))
        one, three = self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))
        return torch.cat([one, three], 1)


class SqueezeNet(nn.Module):
    def __init__(self, version, num_classes=1000, dropout=0.5):
        super().__init__()
        self.num_classes = num_classes
        if version == "1_0":
            self.features = nn.Sequential(
                nn.Conv2d(3, 96, 7, stride=2),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(3, stride=2, ceil_mode=True),
                Fire(96, 16, 64),
                Fire(128, 16, 64),
                Fire(128, 32, 128),
                nn.MaxPool2d(3, stride=2, ceil_mode=True),
                Fire(256, 32, 128),
                Fire(256, 48, 192),
                Fire(384, 48, 192),
                Fire(384, 64, 256),
                nn.MaxPool2d(3, stride=2, ceil_mode=True),
                Fire(512, 64, 256),
            )
        else:
            self.features = nn.Sequential(
                nn.Conv2d(3, 64, 3, stride=2),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(3, stride=2, ceil_mode=True),
                Fire(64, 16, 64),
                Fire(128, 16, 64),
                nn.MaxPool2d(3, stride=2, ceil_mode=True),
                Fire(128, 32, 128),
                Fire(256, 32, 128),
                nn.MaxPool2d(3, stride=2, ceil_mode=True),
                Fire(256, 48, 192),
                Fire(384, 48, 192),
                Fire(384, 64, 256),
                Fire(512, 64, 256),
            )
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Conv2d(512, num_classes, 1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        )

    def forward(self, x):
        return self.classifier(self.features(x)).flatten(1)


def squeezenet1_0(weights=None, progress=True, **kwargs):
    return SqueezeNet("1_0", **kwargs)


def squeezenet1_1(weights=None, progress=True, **kwargs):
    return SqueezeNet("1_1", **kwargs)
