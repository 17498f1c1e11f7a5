"""EfficientNets of both generations. Source: Tan and Le 2019, 2021; names of the layers: torchvision."""

import math

from torch import nn
from torchvision.ops import StochasticDepth


def _divisible(value):
    rounded = max(8, int(value + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * value else rounded


def _unit(into, out, kernel, stride=1, groups=1, active=True, eps=1e-5):
    layers = [
        nn.Conv2d(into, out, kernel, stride=stride, padding=(kernel - 1) // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out, eps),
    ]
    if active:
        layers.append(nn.SiLU(inplace=True))
    return nn.Sequential(*layers)


class Squeeze(nn.Module):
    def __init__(self, width, squeezed):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(width, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, width, 1)
        self.activation = nn.SiLU(inplace=True)
        self.scale_activation = nn.Sigmoid()

    def forward(self, x):
        return self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x))))) * x


class Residual(nn.Module):
    def __init__(self, block, use_res_connect, drop):
        super().__init__()
        self.use_res_connect = use_res_connect
        self.block = block
        self.stochastic_depth = StochasticDepth(drop, "row")

    def forward(self, x):
        result = self.block(x)
        if self.use_res_connect:
            result = self.stochastic_depth(result)
            result += x
        return result


class MBConv(Residual):
    def __init__(self, expand, kernel, stride, into, out, drop, eps):
        wide = _divisible(into * expand)
        layers = []
        if wide != into:
            layers.append(_unit(into, wide, 1, eps=eps))
        layers.append(_unit(wide, wide, kernel, stride, wide, eps=eps))
        layers.append(Squeeze(wide, max(1, into // 4)))
        layers.append(_unit(wide, out, 1, active=False, eps=eps))
        super().__init__(nn.Sequential(*layers), stride == 1 and into == out, drop)


class FusedMBConv(Residual):
    def __init__(self, expand, kernel, stride, into, out, drop, eps):
        wide = _divisible(into * expand)
        if wide != into:
            layers = [_unit(into, wide, kernel, stride, eps=eps), _unit(wide, out, 1, active=False, eps=eps)]
        else:
            layers = [_unit(into, out, kernel, stride, eps=eps)]
        super().__init__(nn.Sequential(*layers), stride == 1 and into == out, drop)


class EfficientNet(nn.Module):
    def __init__(self, stages, last, dropout, eps, num_classes=1000, stochastic_depth_prob=0.2):
        super().__init__()
        into = stages[0][4]
        layers = [_unit(3, into, 3, 2, eps=eps)]
        total = sum(stage[6] for stage in stages)
        done = 0
        for fused, expand, kernel, stride, width, out, count in stages:
            block = FusedMBConv if fused else MBConv
            parts = []
            for i in range(count):
                drop = stochastic_depth_prob * done / total
                if i == 0:
                    parts.append(block(expand, kernel, stride, width, out, drop, eps))
                else:
                    parts.append(block(expand, kernel, 1, out, out, drop, eps))
                done += 1
            layers.append(nn.Sequential(*parts))
            into = out
        layers.append(_unit(into, last or 4 * into, 1, eps=eps))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(last or 4 * into, num_classes))

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def _first_generation(width, depth, dropout, eps, **kwargs):
    stages = []
    for expand, kernel, stride, into, out, count in (
        (1, 3, 1, 32, 16, 1),
        (6, 3, 2, 16, 24, 2),
        (6, 5, 2, 24, 40, 2),
        (6, 3, 2, 40, 80, 3),
        (6, 5, 1, 80, 112, 3),
        (6, 5, 2, 112, 192, 4),
        (6, 3, 1, 192, 320, 1),
    ):
        stages.append(
            (
                False,
                expand,
                kernel,
                stride,
                _divisible(into * width),
                _divisible(out * width),
                int(math.ceil(count * depth)),
            )
        )
    return EfficientNet(stages, None, dropout, eps, **kwargs)


def efficientnet_b0(weights=None, progress=True, dropout=0.2, **kwargs):
    return _first_generation(1.0, 1.0, dropout, 1e-5, **kwargs)


def efficientnet_b1(weights=None, progress=True, dropout=0.2, **kwargs):
    return _first_generation(1.0, 1.1, dropout, 1e-5, **kwargs)


def efficientnet_b2(weights=None, progress=True, dropout=0.3, **kwargs):
    return _first_generation(1.1, 1.2, dropout, 1e-5, **kwargs)


def efficientnet_b3(weights=None, progress=True, dropout=0.3, **kwargs):
    return _first_generation(1.2, 1.4, dropout, 1e-5, **kwargs)


def efficientnet_b4(weights=None, progress=True, dropout=0.4, **kwargs):
    return _first_generation(1.4, 1.8, dropout, 1e-5, **kwargs)


def efficientnet_b5(weights=None, progress=True, dropout=0.4, **kwargs):
    return _first_generation(1.6, 2.2, dropout, 0.001, **kwargs)


def efficientnet_b6(weights=None, progress=True, dropout=0.5, **kwargs):
    return _first_generation(1.8, 2.6, dropout, 0.001, **kwargs)


def efficientnet_b7(weights=None, progress=True, dropout=0.5, **kwargs):
    return _first_generation(2.0, 3.1, dropout, 0.001, **kwargs)


def efficientnet_v2_s(weights=None, progress=True, dropout=0.2, **kwargs):
    stages = [
        (True, 1, 3, 1, 24, 24, 2),
        (True, 4, 3, 2, 24, 48, 4),
        (True, 4, 3, 2, 48, 64, 4),
        (False, 4, 3, 2, 64, 128, 6),
        (False, 6, 3, 1, 128, 160, 9),
        (False, 6, 3, 2, 160, 256, 15),
    ]
    return EfficientNet(stages, 1280, dropout, 0.001, **kwargs)


def efficientnet_v2_m(weights=None, progress=True, dropout=0.3, **kwargs):
    stages = [
        (True, 1, 3, 1, 24, 24, 3),
        (True, 4, 3, 2, 24, 48, 5),
        (True, 4, 3, 2, 48, 80, 5),
        (False, 4, 3, 2, 80, 160, 7),
        (False, 6, 3, 1, 160, 176, 14),
        (False, 6, 3, 2, 176, 304, 18),
        (False, 6, 3, 1, 304, 512, 5),
    ]
    return EfficientNet(stages, 1280, dropout, 0.001, **kwargs)


def efficientnet_v2_l(weights=None, progress=True, dropout=0.4, **kwargs):
    stages = [
        (True, 1, 3, 1, 32, 32, 4),
        (True, 4, 3, 2, 32, 64, 7),
        (True, 4, 3, 2, 64, 96, 7),
        (False, 4, 3, 2, 96, 192, 10),
        (False, 6, 3, 1, 192, 224, 19),
        (False, 6, 3, 2, 224, 384, 25),
        (False, 6, 3, 1, 384, 640, 7),
    ]
    return EfficientNet(stages, 1280, dropout, 0.001, **kwargs)
