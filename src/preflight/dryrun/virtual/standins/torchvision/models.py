"""Networks of the published architectures: ResNet, VGG, AlexNet, MobileNetV2; weights are never loaded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

RESNETS: dict[str, tuple[tuple[int, ...], bool, int, int]] = {
    # name: blocks of the four stages, bottlenecks, groups, width of a group (of 64)
    "resnet18": ((2, 2, 2, 2), False, 1, 64),
    "resnet34": ((3, 4, 6, 3), False, 1, 64),
    "resnet50": ((3, 4, 6, 3), True, 1, 64),
    "resnet101": ((3, 4, 23, 3), True, 1, 64),
    "resnet152": ((3, 8, 36, 3), True, 1, 64),
    "resnext50_32x4d": ((3, 4, 6, 3), True, 32, 4),
    "resnext101_32x8d": ((3, 4, 23, 3), True, 32, 8),
    "wide_resnet50_2": ((3, 4, 6, 3), True, 1, 128),
    "wide_resnet101_2": ((3, 4, 23, 3), True, 1, 128),
}
VGGS = {"vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}


class _Block(nn.Module):
    def __init__(self, inner: int, planes: int, stride: int, deep: bool, groups: int, base: int, norm: Any) -> None:
        super().__init__()
        out = planes * (4 if deep else 1)
        width = int(planes * base / 64) * groups
        self.deep = deep
        if deep:
            self.conv1, self.bn1 = nn.Conv2d(inner, width, 1, bias=False), norm(width)
            self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, groups=groups, bias=False), norm(width)
            self.conv3, self.bn3 = nn.Conv2d(width, out, 1, bias=False), norm(out)
        else:
            self.conv1, self.bn1 = nn.Conv2d(inner, planes, 3, stride, 1, bias=False), norm(planes)
            self.conv2, self.bn2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False), norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: Any = None
        if stride != 1 or inner != out:
            self.downsample = nn.Sequential(nn.Conv2d(inner, out, 1, stride, bias=False), norm(out))

    def forward(self, x: Any) -> Any:
        """Add what the convolutions give to the input."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.deep:
            y = self.bn3(self.conv3(self.relu(y)))
        y = y + x if self.downsample is None else y.add_(self.downsample(x))
        return self.relu(y)


class ResNet(nn.Module):
    """A residual network (He and others, 2015)."""

    def __init__(
        self,
        blocks: tuple[int, ...],
        deep: bool,
        groups: int,
        base: int,
        num_classes: int = 1000,
        norm_layer: Any = None,
        **_: Any,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), norm(64)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        width = 64
        for stage, count in enumerate(blocks):
            planes, layers = 64 << stage, []
            for number in range(count):
                stride = 2 if stage and not number else 1
                layers.append(_Block(width, planes, stride, deep, groups, base, norm))
                width = planes * (4 if deep else 1)
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(width, num_classes)

    def forward(self, x: Any) -> Any:
        """Return scores (batch, classes)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class VGG(nn.Module):
    """Convolutions of 3 x 3, then three large layers (Simonyan and Zisserman, 2014)."""

    def __init__(self, blocks: tuple[int, ...], norm: bool, num_classes: int = 1000, **_: Any) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 3
        for out, count in zip((64, 128, 256, 512, 512), blocks, strict=True):
            for _number in range(count):
                layers += [nn.Conv2d(width, out, 3, padding=1), *([nn.BatchNorm2d(out)] if norm else []), nn.ReLU(True)]
                width = out
            layers.append(nn.MaxPool2d(2, 2))
        self.features, self.avgpool = nn.Sequential(*layers), nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            *(nn.Linear(512 * 49, 4096), nn.ReLU(True), nn.Dropout(), nn.Linear(4096, 4096)),
            *(nn.ReLU(True), nn.Dropout(), nn.Linear(4096, num_classes)),
        )

    def forward(self, x: Any) -> Any:
        """Return scores (batch, classes)."""
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


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


def _maker(make: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    def build(pretrained: Any = False, progress: bool = True, *, weights: Any = None, **kwargs: Any) -> nn.Module:
        if pretrained or weights is not None:
            from preflight.dryrun.virtual.missing import assume

            assume("pretrained weights of torchvision were not read")
        return make(**kwargs)

    return build


class _Weights:
    """Names of weights, none of which is loaded."""

    def __getattr__(self, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


_MAKERS: dict[str, Callable[..., nn.Module]] = {
    **{name: partial(ResNet, *shape) for name, shape in RESNETS.items()},
    **{name: partial(VGG, blocks, False) for name, blocks in VGGS.items()},
    **{f"{name}_bn": partial(VGG, blocks, True) for name, blocks in VGGS.items()},
    "alexnet": AlexNet,
    "mobilenet_v2": MobileNetV2,
}
globals().update({name: _maker(make) for name, make in _MAKERS.items()})


def list_models(*args: Any, **kwargs: Any) -> list[str]:
    """Return the names of the networks."""
    return sorted(_MAKERS)


def get_model(name: str, **kwargs: Any) -> nn.Module:
    """Return a network by its name."""
    return _maker(_MAKERS[name])(**kwargs)


def __getattr__(name: str) -> Any:
    if name.endswith("_Weights"):
        return _Weights()
    raise AttributeError(f"the stand-in for torchvision has no network {name}")
