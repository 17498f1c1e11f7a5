"""Inception, third version (Szegedy and others, 2015)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from preflight.dryrun.virtual.absent.drawn import builder


class BasicConv2d(nn.Module):
    """A convolution with its norm."""

    def __init__(self, in_channels: int, out_channels: int, **more: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **more)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Any) -> Any:
        """Return what is positive."""
        return F.relu(self.bn(self.conv(x)), inplace=True)


class InceptionA(nn.Module):
    """Branches of 1, 5 and 3 x 3."""

    def __init__(self, in_channels: int, pool_features: int, conv_block: Any = None) -> None:
        super().__init__()
        block = conv_block or BasicConv2d
        self.branch1x1 = block(in_channels, 64, kernel_size=1)
        self.branch5x5_1 = block(in_channels, 48, kernel_size=1)
        self.branch5x5_2 = block(48, 64, kernel_size=5, padding=2)
        self.branch3x3dbl_1 = block(in_channels, 64, kernel_size=1)
        self.branch3x3dbl_2 = block(64, 96, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = block(96, 96, kernel_size=3, padding=1)
        self.branch_pool = block(in_channels, pool_features, kernel_size=1)

    def forward(self, x: Any) -> Any:
        """Join the branches."""
        three = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        pooled = self.branch_pool(F.avg_pool2d(x, 3, 1, 1))
        return torch.cat([self.branch1x1(x), self.branch5x5_2(self.branch5x5_1(x)), three, pooled], 1)


class InceptionB(nn.Module):
    """Halves the size."""

    def __init__(self, in_channels: int, conv_block: Any = None) -> None:
        super().__init__()
        block = conv_block or BasicConv2d
        self.branch3x3 = block(in_channels, 384, kernel_size=3, stride=2)
        self.branch3x3dbl_1 = block(in_channels, 64, kernel_size=1)
        self.branch3x3dbl_2 = block(64, 96, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = block(96, 96, kernel_size=3, stride=2)

    def forward(self, x: Any) -> Any:
        """Join the branches."""
        three = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch3x3(x), three, F.max_pool2d(x, 3, 2)], 1)


class InceptionC(nn.Module):
    """Branches of 7 x 7 in two parts."""

    def __init__(self, in_channels: int, channels_7x7: int, conv_block: Any = None) -> None:
        super().__init__()
        block, c7 = conv_block or BasicConv2d, channels_7x7
        row, column = {"kernel_size": (1, 7), "padding": (0, 3)}, {"kernel_size": (7, 1), "padding": (3, 0)}
        self.branch1x1 = block(in_channels, 192, kernel_size=1)
        self.branch7x7_1 = block(in_channels, c7, kernel_size=1)
        self.branch7x7_2, self.branch7x7_3 = block(c7, c7, **row), block(c7, 192, **column)
        self.branch7x7dbl_1 = block(in_channels, c7, kernel_size=1)
        self.branch7x7dbl_2, self.branch7x7dbl_3 = block(c7, c7, **column), block(c7, c7, **row)
        self.branch7x7dbl_4, self.branch7x7dbl_5 = block(c7, c7, **column), block(c7, 192, **row)
        self.branch_pool = block(in_channels, 192, kernel_size=1)

    def forward(self, x: Any) -> Any:
        """Join the branches."""
        seven = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        twice = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        twice = self.branch7x7dbl_5(self.branch7x7dbl_4(twice))
        return torch.cat([self.branch1x1(x), seven, twice, self.branch_pool(F.avg_pool2d(x, 3, 1, 1))], 1)


class InceptionD(nn.Module):
    """Halves the size."""

    def __init__(self, in_channels: int, conv_block: Any = None) -> None:
        super().__init__()
        block = conv_block or BasicConv2d
        self.branch3x3_1 = block(in_channels, 192, kernel_size=1)
        self.branch3x3_2 = block(192, 320, kernel_size=3, stride=2)
        self.branch7x7x3_1 = block(in_channels, 192, kernel_size=1)
        self.branch7x7x3_2 = block(192, 192, kernel_size=(1, 7), padding=(0, 3))
        self.branch7x7x3_3 = block(192, 192, kernel_size=(7, 1), padding=(3, 0))
        self.branch7x7x3_4 = block(192, 192, kernel_size=3, stride=2)

    def forward(self, x: Any) -> Any:
        """Join the branches."""
        seven = self.branch7x7x3_2(self.branch7x7x3_1(x))
        seven = self.branch7x7x3_4(self.branch7x7x3_3(seven))
        return torch.cat([self.branch3x3_2(self.branch3x3_1(x)), seven, F.max_pool2d(x, 3, 2)], 1)


class InceptionE(nn.Module):
    """The widest."""

    def __init__(self, in_channels: int, conv_block: Any = None) -> None:
        super().__init__()
        block = conv_block or BasicConv2d
        row, column = {"kernel_size": (1, 3), "padding": (0, 1)}, {"kernel_size": (3, 1), "padding": (1, 0)}
        self.branch1x1 = block(in_channels, 320, kernel_size=1)
        self.branch3x3_1 = block(in_channels, 384, kernel_size=1)
        self.branch3x3_2a, self.branch3x3_2b = block(384, 384, **row), block(384, 384, **column)
        self.branch3x3dbl_1 = block(in_channels, 448, kernel_size=1)
        self.branch3x3dbl_2 = block(448, 384, kernel_size=3, padding=1)
        self.branch3x3dbl_3a, self.branch3x3dbl_3b = block(384, 384, **row), block(384, 384, **column)
        self.branch_pool = block(in_channels, 192, kernel_size=1)

    def forward(self, x: Any) -> Any:
        """Join the branches."""
        three = self.branch3x3_1(x)
        three = torch.cat([self.branch3x3_2a(three), self.branch3x3_2b(three)], 1)
        twice = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        twice = torch.cat([self.branch3x3dbl_3a(twice), self.branch3x3dbl_3b(twice)], 1)
        return torch.cat([self.branch1x1(x), three, twice, self.branch_pool(F.avg_pool2d(x, 3, 1, 1))], 1)


class InceptionAux(nn.Module):
    """A classifier half-way."""

    def __init__(self, in_channels: int, num_classes: int, conv_block: Any = None) -> None:
        super().__init__()
        block = conv_block or BasicConv2d
        self.conv0, self.conv1 = block(in_channels, 128, kernel_size=1), block(128, 768, kernel_size=5)
        self.fc = nn.Linear(768, num_classes)

    def forward(self, x: Any) -> Any:
        """Return scores (batch, classes)."""
        y = F.adaptive_avg_pool2d(self.conv1(self.conv0(F.avg_pool2d(x, 5, 3))), (1, 1))
        return self.fc(torch.flatten(y, 1))


class Inception3(nn.Module):
    """The whole network, for pictures of 299 x 299."""

    def __init__(
        self, num_classes: int = 1000, aux_logits: bool = True, transform_input: bool = False, *_: Any, **__: Any
    ) -> None:
        super().__init__()
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.Conv2d_1a_3x3 = BasicConv2d(3, 32, kernel_size=3, stride=2)
        self.Conv2d_2a_3x3 = BasicConv2d(32, 32, kernel_size=3)
        self.Conv2d_2b_3x3 = BasicConv2d(32, 64, kernel_size=3, padding=1)
        self.maxpool1 = nn.MaxPool2d(3, 2)
        self.Conv2d_3b_1x1 = BasicConv2d(64, 80, kernel_size=1)
        self.Conv2d_4a_3x3 = BasicConv2d(80, 192, kernel_size=3)
        self.maxpool2 = nn.MaxPool2d(3, 2)
        self.Mixed_5b, self.Mixed_5c, self.Mixed_5d = InceptionA(192, 32), InceptionA(256, 64), InceptionA(288, 64)
        self.Mixed_6a, self.Mixed_6b, self.Mixed_6c = InceptionB(288), InceptionC(768, 128), InceptionC(768, 160)
        self.Mixed_6d, self.Mixed_6e = InceptionC(768, 160), InceptionC(768, 192)
        self.AuxLogits: Any = InceptionAux(768, num_classes) if aux_logits else None
        self.Mixed_7a, self.Mixed_7b, self.Mixed_7c = InceptionD(768), InceptionE(1280), InceptionE(2048)
        self.avgpool, self.dropout = nn.AdaptiveAvgPool2d((1, 1)), nn.Dropout()
        self.fc = nn.Linear(2048, num_classes)

    def forward(self, x: Any) -> Any:
        """Return scores (batch, classes), with those from half-way while training."""
        x = self.maxpool1(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))))
        x = self.maxpool2(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)))
        x = self.Mixed_6a(self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(x))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(x))))
        aux = self.AuxLogits(x) if self.aux_logits and self.training else None
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        x = self.fc(torch.flatten(self.dropout(self.avgpool(x)), 1))
        return (x, aux) if aux is not None else x


def _make(weights: Any = None, **kwargs: Any) -> Inception3:
    return Inception3(**kwargs)


MAKERS = {"inception_v3": builder("inception_v3", _make)}
globals().update(MAKERS)
