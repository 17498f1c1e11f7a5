"""VGG networks. Source: Simonyan and Zisserman 2014; names of the layers: torchvision."""

from torch import nn

cfgs = {
    "A": [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "B": [64, 64, "M", 128, 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "D": [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"],
    "E": [64, 64, "M", 128, 128, "M", 256, 256, 256, 256, "M", 512, 512, 512, 512, "M", 512, 512, 512, 512, "M"],
}


def make_layers(cfg, batch_norm=False):
    layers = []
    into = 3
    for width in cfg:
        if width == "M":
            layers.append(nn.MaxPool2d(2, stride=2))
        else:
            layers.append(nn.Conv2d(into, width, 3, padding=1))
            if batch_norm:
                layers.append(nn.BatchNorm2d(width))
            layers.append(nn.ReLU(inplace=True))
            into = width
    return nn.Sequential(*layers)


class VGG(nn.Module):
    def __init__(self, features, num_classes=1000, init_weights=True, dropout=0.5):
        super().__init__()
        self.features = features
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
    return VGG(make_layers(cfgs["A"]), **kwargs)


def vgg11_bn(weights=None, progress=True, **kwargs):
    return VGG(make_layers(cfgs["A"], True), **kwargs)


def vgg13(weights=None, progress=True, **kwargs):
    return VGG(make_layers(cfgs["B"]), **kwargs)


def vgg13_bn(weights=None, progress=True, **kwargs):
    return VGG(make_layers(cfgs["B"], True), **kwargs)


def vgg16(weights=None, progress=True, **kwargs):
    return VGG(make_layers(cfgs["D"]), **kwargs)


def vgg16_bn(weights=None, progress=True, **kwargs):
    return VGG(make_layers(cfgs["D"], True), **kwargs)


def vgg19(weights=None, progress=True, **kwargs):
    return VGG(make_layers(cfgs["E"]), **kwargs)


def vgg19_bn(weights=None, progress=True, **kwargs):
    return VGG(make_layers(cfgs["E"], True), **kwargs)
