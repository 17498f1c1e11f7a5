"""ConvNeXt networks. Source: Liu et al. 2022; names of the layers: torchvision."""

import torch
from torch import nn
from torchvision.ops import StochasticDepth


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x = nn.functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class Permute(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return torch.permute(x, self.dims)


class CNBlock(nn.Module):
    def __init__(self, width, scale, drop):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(width, width, 7, padding=3, groups=width, bias=True),
            Permute([0, 2, 3, 1]),
            nn.LayerNorm(width, eps=1e-6),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            Permute([0, 3, 1, 2]),
        )
        self.layer_scale = nn.Parameter(torch.ones(width, 1, 1) * scale)
        self.stochastic_depth = StochasticDepth(drop, "row")

    def forward(self, x):
        result = self.layer_scale * self.block(x)
        result = self.stochastic_depth(result)
        result += x
        return result


class ConvNeXt(nn.Module):
    def __init__(self, widths, depths, stochastic_depth_prob=0.0, layer_scale=1e-6, num_classes=1000):
        super().__init__()
        layers = [nn.Sequential(nn.Conv2d(3, widths[0], 4, stride=4), LayerNorm2d(widths[0], eps=1e-6))]
        total = sum(depths)
        done = 0
        for i, depth in enumerate(depths):
            blocks = []
            for _ in range(depth):
                blocks.append(CNBlock(widths[i], layer_scale, stochastic_depth_prob * done / (total - 1)))
                done += 1
            layers.append(nn.Sequential(*blocks))
            if i + 1 < len(depths):
                layers.append(
                    nn.Sequential(LayerNorm2d(widths[i], eps=1e-6), nn.Conv2d(widths[i], widths[i + 1], 2, stride=2))
                )
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            LayerNorm2d(widths[-1], eps=1e-6), nn.Flatten(1), nn.Linear(widths[-1], num_classes)
        )

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)))


def convnext_tiny(weights=None, progress=True, stochastic_depth_prob=0.1, **kwargs):
    return ConvNeXt((96, 192, 384, 768), (3, 3, 9, 3), stochastic_depth_prob, **kwargs)


def convnext_small(weights=None, progress=True, stochastic_depth_prob=0.4, **kwargs):
    return ConvNeXt((96, 192, 384, 768), (3, 3, 27, 3), stochastic_depth_prob, **kwargs)


def convnext_base(weights=None, progress=True, stochastic_depth_prob=0.5, **kwargs):
    return ConvNeXt((128, 256, 512, 1024), (3, 3, 27, 3), stochastic_depth_prob, **kwargs)


def convnext_large(weights=None, progress=True, stochastic_depth_prob=0.5, **kwargs):
    return ConvNeXt((192, 384, 768, 1536), (3, 3, 27, 3), stochastic_depth_prob, **kwargs)
