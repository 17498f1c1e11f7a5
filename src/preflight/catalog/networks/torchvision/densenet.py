"""Densely connected networks. Source: Huang et al. 2016; names of the layers: torchvision."""

from collections import OrderedDict

import torch
from torch import nn


class DenseLayer(nn.Module):
    def __init__(self, into, growth, wide, drop):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(into)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(into, wide * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(wide * growth)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(wide * growth, growth, 3, padding=1, bias=False)
        self.drop_rate = drop

    def forward(self, earlier):
        x = self.conv1(self.relu1(self.norm1(torch.cat(earlier, 1))))
        x = self.conv2(self.relu2(self.norm2(x)))
        if self.drop_rate > 0:
            x = nn.functional.dropout(x, p=self.drop_rate, training=self.training)
        return x


class DenseBlock(nn.Module):
    def __init__(self, count, into, growth, wide, drop):
        super().__init__()
        self.layers = nn.ModuleList([DenseLayer(into + i * growth, growth, wide, drop) for i in range(count)])

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(features))
        return torch.cat(features, 1)


class Transition(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.norm = nn.BatchNorm2d(into)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(into, out, 1, bias=False)
        self.pool = nn.AvgPool2d(2, stride=2)

    def forward(self, x):
        return self.pool(self.conv(self.relu(self.norm(x))))


class DenseNet(nn.Module):
    def __init__(
        self,
        growth_rate=32,
        block_config=(6, 12, 24, 16),
        num_init_features=64,
        bn_size=4,
        drop_rate=0,
        num_classes=1000,
        memory_efficient=False,
    ):
        super().__init__()
        layers = OrderedDict()
        layers["conv0"] = nn.Conv2d(3, num_init_features, 7, stride=2, padding=3, bias=False)
        layers["norm0"] = nn.BatchNorm2d(num_init_features)
        layers["relu0"] = nn.ReLU(inplace=True)
        layers["pool0"] = nn.MaxPool2d(3, stride=2, padding=1)
        width = num_init_features
        for i, count in enumerate(block_config):
            layers[f"denseblock{i + 1}"] = DenseBlock(count, width, growth_rate, bn_size, drop_rate)
            width += count * growth_rate
            if i != len(block_config) - 1:
                layers[f"transition{i + 1}"] = Transition(width, width // 2)
                width = width // 2
        layers["norm5"] = nn.BatchNorm2d(width)
        self.features = nn.Sequential(layers)
        self.classifier = nn.Linear(width, num_classes)

    def forward(self, x):
        out = nn.functional.relu(self.features(x), inplace=True)
        out = nn.functional.adaptive_avg_pool2d(out, (1, 1))
        return self.classifier(torch.flatten(out, 1))


def densenet121(weights=None, progress=True, **kwargs):
    return DenseNet(32, (6, 12, 24, 16), 64, **kwargs)


def densenet161(weights=None, progress=True, **kwargs):
    return DenseNet(48, (6, 12, 36, 24), 96, **kwargs)


def densenet169(weights=None, progress=True, **kwargs):
    return DenseNet(32, (6, 12, 32, 32), 64, **kwargs)


def densenet201(weights=None, progress=True, **kwargs):
    return DenseNet(32, (6, 12, 48, 32), 64, **kwargs)
