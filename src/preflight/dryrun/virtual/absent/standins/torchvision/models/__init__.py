"""Networks of the published architectures; weights are never loaded."""

from __future__ import annotations

from typing import Any

from torch import nn

from . import _utils as _utils
from . import alexnet as _alexnet
from . import densenet as densenet
from . import inception as inception
from . import mobilenet as _mobilenet
from . import resnet as resnet
from . import utils as utils
from . import vgg as vgg
from ._building import Weights, builder
from .alexnet import AlexNet as AlexNet
from .densenet import DenseNet as DenseNet
from .inception import Inception3 as Inception3
from .mobilenet import MobileNetV2 as MobileNetV2
from .resnet import ResNet as ResNet
from .vgg import VGG as VGG

_MAKERS = {
    **resnet.MAKERS,
    **vgg.MAKERS,
    **densenet.MAKERS,
    **inception.MAKERS,
    "alexnet": builder(_alexnet.AlexNet),
    "mobilenet_v2": builder(_mobilenet.MobileNetV2),
}
globals().update(_MAKERS)


def list_models(*args: Any, **kwargs: Any) -> list[str]:
    """Return the names of the networks."""
    return sorted(_MAKERS)


def get_model(name: str, **kwargs: Any) -> nn.Module:
    """Return a network by its name."""
    return _MAKERS[name](**kwargs)


def __getattr__(name: str) -> Any:
    if name.endswith("_Weights"):
        return Weights()
    raise AttributeError(f"the stand-in for torchvision has no network {name}")
