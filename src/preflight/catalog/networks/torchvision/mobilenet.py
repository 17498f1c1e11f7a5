"""MobileNets of the second and third generation. Source: Sandler et al. 2018; Howard et al. 2019; names of the layers: torchvision."""

from torch import nn


def _divisible(value, divisor=8):
    rounded = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * value else rounded


def _unit(into, out, kernel, stride=1, groups=1, activation=nn.ReLU6, dilation=1, eps=1e-5, momentum=0.1, norm=None):
    layers = [
        nn.Conv2d(into, out, kernel, stride, (kernel - 1) // 2 * dilation, dilation, groups, bias=False),
        norm(out) if norm is not None else nn.BatchNorm2d(out, eps, momentum),
    ]
    if activation is not None:
        layers.append(activation(inplace=True))
    return nn.Sequential(*layers)


class InvertedResidual(nn.Module):
    def __init__(self, inp, oup, stride, expand_ratio, norm_layer=None):
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        self.use_res_connect = stride == 1 and inp == oup
        hidden = int(round(inp * expand_ratio))
        layers = []
        if expand_ratio != 1:
            layers.append(_unit(inp, hidden, 1, norm=norm_layer))
        layers.append(_unit(hidden, hidden, 3, stride, hidden, norm=norm_layer))
        layers.append(nn.Conv2d(hidden, oup, 1, bias=False))
        layers.append(norm_layer(oup))
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        if self.use_res_connect:
            return x + self.conv(x)
        return self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(
        self,
        num_classes=1000,
        width_mult=1.0,
        inverted_residual_setting=None,
        round_nearest=8,
        block=None,
        norm_layer=None,
        dropout=0.2,
    ):
        super().__init__()
        block = block or InvertedResidual
        into = _divisible(32 * width_mult, round_nearest)
        self.last_channel = _divisible(1280 * max(1.0, width_mult), round_nearest)
        features = [_unit(3, into, 3, 2, norm=norm_layer)]
        for expand, width, count, stride in inverted_residual_setting or (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ):
            out = _divisible(width * width_mult, round_nearest)
            for i in range(count):
                features.append(block(into, out, stride if i == 0 else 1, expand, norm_layer))
                into = out
        features.append(_unit(into, self.last_channel, 1, norm=norm_layer))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(self.last_channel, num_classes))

    def forward(self, x):
        x = nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(x.flatten(1))


def mobilenet_v2(weights=None, progress=True, **kwargs):
    return MobileNetV2(**kwargs)


class Squeeze(nn.Module):
    def __init__(self, width, squeezed):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(width, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, width, 1)
        self.activation = nn.ReLU()
        self.scale_activation = nn.Hardsigmoid()

    def forward(self, x):
        scale = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x)))))
        return scale * x


class Block(nn.Module):
    def __init__(self, into, kernel, expanded, out, squeeze, activation, stride, dilation):
        super().__init__()
        self.use_res_connect = stride == 1 and into == out
        layers = []
        if expanded != into:
            layers.append(_unit(into, expanded, 1, activation=activation, eps=0.001, momentum=0.01))
        step = 1 if dilation > 1 else stride
        layers.append(_unit(expanded, expanded, kernel, step, expanded, activation, dilation, 0.001, 0.01))
        if squeeze:
            layers.append(Squeeze(expanded, _divisible(expanded // 4)))
        layers.append(_unit(expanded, out, 1, activation=None, eps=0.001, momentum=0.01))
        self.block = nn.Sequential(*layers)

    def forward(self, x):
        result = self.block(x)
        if self.use_res_connect:
            result += x
        return result


class MobileNetV3(nn.Module):
    def __init__(self, blocks, last_channel, num_classes=1000, dropout=0.2, width_mult=1.0):
        super().__init__()
        into = _divisible(16 * width_mult)
        layers = [_unit(3, into, 3, 2, activation=nn.Hardswish, eps=0.001, momentum=0.01)]
        for kernel, expanded, out, squeeze, activation, stride, dilation in blocks:
            expanded, out = _divisible(expanded * width_mult), _divisible(out * width_mult)
            layers.append(Block(into, kernel, expanded, out, squeeze, activation, stride, dilation))
            into = out
        layers.append(_unit(into, 6 * into, 1, activation=nn.Hardswish, eps=0.001, momentum=0.01))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(6 * into, last_channel),
            nn.Hardswish(inplace=True),
            nn.Dropout(dropout, inplace=True),
            nn.Linear(last_channel, num_classes),
        )

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def mobilenet_v3_large(weights=None, progress=True, dilated=False, reduced_tail=False, **kwargs):
    relu, swish = nn.ReLU, nn.Hardswish
    last = 80 if reduced_tail else 160
    spread = 2 if dilated else 1
    blocks = (
        (3, 16, 16, False, relu, 1, 1),
        (3, 64, 24, False, relu, 2, 1),
        (3, 72, 24, False, relu, 1, 1),
        (5, 72, 40, True, relu, 2, 1),
        (5, 120, 40, True, relu, 1, 1),
        (5, 120, 40, True, relu, 1, 1),
        (3, 240, 80, False, swish, 2, 1),
        (3, 200, 80, False, swish, 1, 1),
        (3, 184, 80, False, swish, 1, 1),
        (3, 184, 80, False, swish, 1, 1),
        (3, 480, 112, True, swish, 1, 1),
        (3, 672, 112, True, swish, 1, 1),
        (5, 672, last, True, swish, 2, spread),
        (5, 6 * last, last, True, swish, 1, spread),
        (5, 6 * last, last, True, swish, 1, spread),
    )
    return MobileNetV3(blocks, 640 if reduced_tail else 1280, **kwargs)


def mobilenet_v3_small(weights=None, progress=True, dilated=False, reduced_tail=False, **kwargs):
    relu, swish = nn.ReLU, nn.Hardswish
    last = 48 if reduced_tail else 96
    spread = 2 if dilated else 1
    blocks = (
        (3, 16, 16, True, relu, 2, 1),
        (3, 72, 24, False, relu, 2, 1),
        (3, 88, 24, False, relu, 1, 1),
        (5, 96, 40, True, swish, 2, 1),
        (5, 240, 40, True, swish, 1, 1),
        (5, 240, 40, True, swish, 1, 1),
        (5, 120, 48, True, swish, 1, 1),
        (5, 144, 48, True, swish, 1, 1),
        (5, 288, last, True, swish, 2, spread),
        (5, 6 * last, last, True, swish, 1, spread),
        (5, 6 * last, last, True, swish, 1, spread),
    )
    return MobileNetV3(blocks, 512 if reduced_tail else 1024, **kwargs)
