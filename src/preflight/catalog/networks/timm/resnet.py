"""Residual networks as timm names their layers. Source: He et al. 2015; Xie et al. 2016; Zagoruyko and Komodakis 2016."""

from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, into, planes, stride, shortcut, cardinality, base_width):
        super().__init__()
        self.conv1 = nn.Conv2d(into, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.act1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.act2 = nn.ReLU(inplace=True)
        self.downsample = shortcut

    def forward(self, x):
        out = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        if self.downsample is not None:
            x = self.downsample(x)
        out += x
        return self.act2(out)


class Bottleneck(nn.Module):
    def __init__(self, into, planes, stride, shortcut, cardinality, base_width):
        super().__init__()
        width = int(planes * base_width / 64) * cardinality
        self.conv1 = nn.Conv2d(into, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.act1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, groups=cardinality, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.act2 = nn.ReLU(inplace=True)
        self.conv3 = nn.Conv2d(width, planes * 4, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes * 4)
        self.act3 = nn.ReLU(inplace=True)
        self.downsample = shortcut

    def forward(self, x):
        out = self.act1(self.bn1(self.conv1(x)))
        out = self.act2(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            x = self.downsample(x)
        out += x
        return self.act3(out)


class ResNet(nn.Module):
    def __init__(
        self,
        block,
        layers,
        expansion,
        num_classes=1000,
        in_chans=3,
        global_pool="avg",
        cardinality=1,
        base_width=64,
        drop_rate=0.0,
    ):
        super().__init__()
        self.num_classes = num_classes
        self.num_features = 512 * expansion
        self.head_hidden_size = self.num_features
        self.width = 64
        self.conv1 = nn.Conv2d(in_chans, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.act1 = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = self._stage(block, 64, layers[0], 1, expansion, cardinality, base_width)
        self.layer2 = self._stage(block, 128, layers[1], 2, expansion, cardinality, base_width)
        self.layer3 = self._stage(block, 256, layers[2], 2, expansion, cardinality, base_width)
        self.layer4 = self._stage(block, 512, layers[3], 2, expansion, cardinality, base_width)
        self.global_pool = nn.AdaptiveAvgPool2d(1) if global_pool else nn.Identity()
        self.pooled = bool(global_pool)
        self.drop = nn.Dropout(drop_rate)
        self.fc = nn.Linear(self.num_features, num_classes) if num_classes else nn.Identity()

    def _stage(self, block, planes, count, stride, expansion, cardinality, base_width):
        shortcut = None
        if stride != 1 or self.width != planes * expansion:
            shortcut = nn.Sequential(
                nn.Conv2d(self.width, planes * expansion, 1, stride=stride, bias=False),
                nn.BatchNorm2d(planes * expansion),
            )
        blocks = [block(self.width, planes, stride, shortcut, cardinality, base_width)]
        self.width = planes * expansion
        for _ in range(1, count):
            blocks.append(block(self.width, planes, 1, None, cardinality, base_width))
        return nn.Sequential(*blocks)

    def get_classifier(self):
        return self.fc

    def reset_classifier(self, num_classes, global_pool=None):
        self.fc = nn.Linear(self.num_features, num_classes) if num_classes else nn.Identity()

    def forward_features(self, x):
        x = self.maxpool(self.act1(self.bn1(self.conv1(x))))
        return self.layer4(self.layer3(self.layer2(self.layer1(x))))

    def forward_head(self, x, pre_logits=False):
        x = self.global_pool(x)
        if self.pooled:
            x = x.flatten(1)
        x = self.drop(x)
        return x if pre_logits else self.fc(x)

    def forward(self, x):
        return self.forward_head(self.forward_features(x))


def resnet18(pretrained=False, **kwargs):
    return ResNet(BasicBlock, [2, 2, 2, 2], 1, **kwargs)


def resnet34(pretrained=False, **kwargs):
    return ResNet(BasicBlock, [3, 4, 6, 3], 1, **kwargs)


def resnet50(pretrained=False, **kwargs):
    return ResNet(Bottleneck, [3, 4, 6, 3], 4, **kwargs)


def resnet101(pretrained=False, **kwargs):
    return ResNet(Bottleneck, [3, 4, 23, 3], 4, **kwargs)


def resnet152(pretrained=False, **kwargs):
    return ResNet(Bottleneck, [3, 8, 36, 3], 4, **kwargs)


def resnext50_32x4d(pretrained=False, **kwargs):
    return ResNet(Bottleneck, [3, 4, 6, 3], 4, cardinality=32, base_width=4, **kwargs)


def resnext101_32x8d(pretrained=False, **kwargs):
    return ResNet(Bottleneck, [3, 4, 23, 3], 4, cardinality=32, base_width=8, **kwargs)


def wide_resnet50_2(pretrained=False, **kwargs):
    return ResNet(Bottleneck, [3, 4, 6, 3], 4, base_width=128, **kwargs)


def wide_resnet101_2(pretrained=False, **kwargs):
    return ResNet(Bottleneck, [3, 4, 23, 3], 4, base_width=128, **kwargs)
