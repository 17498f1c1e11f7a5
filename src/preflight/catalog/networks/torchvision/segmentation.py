"""Networks that label each pixel. Source: Long et al. 2014 (FCN); Chen et al. 2017 (DeepLabV3); names of the layers: torchvision."""

import torch
from torch import nn
from torchvision.models import resnet50, resnet101


class Backbone(nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.conv1, self.bn1, self.relu, self.maxpool = whole.conv1, whole.bn1, whole.relu, whole.maxpool
        self.layer1, self.layer2, self.layer3, self.layer4 = whole.layer1, whole.layer2, whole.layer3, whole.layer4

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        third = self.layer3(self.layer2(self.layer1(x)))
        return {"out": self.layer4(third), "aux": third}


class FCNHead(nn.Sequential):
    def __init__(self, into, classes):
        super().__init__(
            nn.Conv2d(into, into // 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(into // 4),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Conv2d(into // 4, classes, 1),
        )


class Pooling(nn.Sequential):
    def __init__(self, into, out):
        super().__init__(nn.AdaptiveAvgPool2d(1), nn.Conv2d(into, out, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())

    def forward(self, x):
        size = x.shape[-2:]
        for part in self:
            x = part(x)
        return nn.functional.interpolate(x, size=size, mode="bilinear", align_corners=False)


class ASPP(nn.Module):
    def __init__(self, into, rates, out=256):
        super().__init__()
        parts = [nn.Sequential(nn.Conv2d(into, out, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())]
        for rate in rates:
            parts.append(
                nn.Sequential(
                    nn.Conv2d(into, out, 3, padding=rate, dilation=rate, bias=False), nn.BatchNorm2d(out), nn.ReLU()
                )
            )
        parts.append(Pooling(into, out))
        self.convs = nn.ModuleList(parts)
        self.project = nn.Sequential(
            nn.Conv2d(len(parts) * out, out, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(), nn.Dropout(0.5)
        )

    def forward(self, x):
        return self.project(torch.cat([part(x) for part in self.convs], dim=1))


class DeepLabHead(nn.Sequential):
    def __init__(self, into, classes):
        super().__init__(
            ASPP(into, (12, 24, 36)),
            nn.Conv2d(256, 256, 3, padding=1, bias=False),
            nn.BatchNorm2d(256),
            nn.ReLU(),
            nn.Conv2d(256, classes, 1),
        )


class Segmentation(nn.Module):
    def __init__(self, whole, classifier, aux_classifier):
        super().__init__()
        self.backbone = Backbone(whole)
        self.classifier = classifier
        self.aux_classifier = aux_classifier

    def forward(self, x):
        size = x.shape[-2:]
        features = self.backbone(x)
        result = {
            "out": nn.functional.interpolate(
                self.classifier(features["out"]), size=size, mode="bilinear", align_corners=False
            )
        }
        if self.aux_classifier is not None:
            result["aux"] = nn.functional.interpolate(
                self.aux_classifier(features["aux"]), size=size, mode="bilinear", align_corners=False
            )
        return result


def _made(head, build, weights, num_classes, aux_loss, pretrained):
    classes = num_classes or 21
    # The published weights have the second head: whoever loads them gets it.
    aux = FCNHead(1024, classes) if aux_loss or ((weights is not None or pretrained) and aux_loss is None) else None
    whole = build(replace_stride_with_dilation=[False, True, True])
    return Segmentation(whole, head(2048, classes), aux)


def fcn_resnet50(weights=None, progress=True, num_classes=None, aux_loss=None, pretrained=False, **kwargs):
    return _made(FCNHead, resnet50, weights, num_classes, aux_loss, pretrained)


def fcn_resnet101(weights=None, progress=True, num_classes=None, aux_loss=None, pretrained=False, **kwargs):
    return _made(FCNHead, resnet101, weights, num_classes, aux_loss, pretrained)


def deeplabv3_resnet50(weights=None, progress=True, num_classes=None, aux_loss=None, pretrained=False, **kwargs):
    return _made(DeepLabHead, resnet50, weights, num_classes, aux_loss, pretrained)


def deeplabv3_resnet101(weights=None, progress=True, num_classes=None, aux_loss=None, pretrained=False, **kwargs):
    return _made(DeepLabHead, resnet101, weights, num_classes, aux_loss, pretrained)
