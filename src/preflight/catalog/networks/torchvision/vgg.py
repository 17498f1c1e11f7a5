"""VGG networks. Source: Simonyan and Zisserman 2014; names of the layers: torchvision."""

from torch import nn


class VGG(nn.Module):
    def __init__(self, blocks, batch_norm, num_classes=1000, dropout=0.5, init_weights=True):
        super().__init__()
        layers = []
        into = 3
        for width, count in zip((64, 128, 256, 512, 512), blocks):
            for _ in range(count):
                layers.append(nn.Conv2d(into, width, 3, padding=1))
                if batch_norm:
                    layers.append(nn.BatchNorm2d(width))
                layers.append(nn.ReLU(inplace=True))
                into = width
            layers.append(nn.MaxPool2d(2, stride=2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(True),
            nn.Dropout(dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(True),
            nn.Dropout(dropout),
            nn.Linear(4096, num_classes),
        )

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def vgg11(weights=None, progress=True, **kwargs):
    return VGG((1, 1, 2, 2, 2), False, **kwargs)


def vgg11_bn(weights=None, progress=True, **kwargs):
    return VGG((1, 1, 2, 2, 2), True, **kwargs)


def vgg13(weights=None, progress=True, **kwargs):
    return VGG((2, 2, 2, 2, 2), False, **kwargs)


def vgg13_bn(weights=None, progress=True, **kwargs):
    return VGG((2, 2, 2, 2, 2), True, **kwargs)


def vgg16(weights=None, progress=True, **kwargs):
    return VGG((2, 2, 3, 3, 3), False, **kwargs)


def vgg16_bn(weights=None, progress=True, **kwargs):
    return VGG((2, 2, 3, 3, 3), True, **kwargs)


def vgg19(weights=None, progress=True, **kwargs):
    return VGG((2, 2, 4, 4, 4), False, **kwargs)


def vgg19_bn(weights=None, progress=True, **kwargs):
    return VGG((2, 2, 4, 4, 4), True, **kwargs)
