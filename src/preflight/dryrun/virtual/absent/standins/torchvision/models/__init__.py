"""Networks of the published architectures; weights are never loaded."""

from __future__ import annotations

import sys
from typing import Any

from torch import nn

from preflight.dryrun.virtual.absent import drawn

from . import _utils as _utils
from . import alexnet as _alexnet
from . import densenet as densenet
from . import inception as inception
from . import resnet as resnet
from . import utils as utils
from . import vgg as vgg
from ._building import Weights, builder
from .alexnet import AlexNet as AlexNet
from .densenet import DenseNet as DenseNet
from .inception import Inception3 as Inception3
from .resnet import ResNet as ResNet
from .vgg import VGG as VGG

_MAKERS = {
    **resnet.MAKERS,
    **vgg.MAKERS,
    **densenet.MAKERS,
    **inception.MAKERS,
    "alexnet": builder(_alexnet.AlexNet),
}
globals().update(_MAKERS)
# What is not written here, the catalog draws; a drawing may ask for what stands above.
_DRAWN = drawn.extend(sys.modules[__name__], "torchvision", Weights)
_MAKERS.update({name: make for name, make in _DRAWN.items() if name not in _MAKERS})
globals().update(_MAKERS)
for _made in _DRAWN.values():
    _module = sys.modules[_made.__module__]
    globals().update(
        {n: v for n, v in vars(_module).items() if isinstance(v, type) and v.__module__ == _module.__name__}
    )
for _head in ("deeplabv3", "fcn"):  # modules of a package of which one file is drawn
    if "segmentation" in globals():
        sys.modules[f"{__name__}.segmentation.{_head}"] = globals()["segmentation"]
        setattr(globals()["segmentation"], _head, globals()["segmentation"])


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
