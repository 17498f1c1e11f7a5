"""Networks of the published architectures; weights are never loaded."""

from __future__ import annotations

import sys
from typing import Any

from torch import nn

from preflight.dryrun.virtual.absent import drawn

from . import _utils as _utils
from . import inception as inception
from . import utils as utils
from ._building import Weights
from .inception import Inception3 as Inception3

globals().update(inception.MAKERS)
# What is not written here, the catalog draws.
_MAKERS = {**inception.MAKERS, **drawn.extend(sys.modules[__name__], "torchvision", Weights)}
for _made in _MAKERS.values():
    # Scripts for older releases look for the addresses of weights in the module of a network.
    _module = sys.modules[_made.__module__]
    vars(_module).setdefault("model_urls", {})[_made.__name__] = (
        f"https://download.pytorch.org/models/{_made.__name__}.pth"
    )
_segmentation = sys.modules.get(f"{__name__}.segmentation")
for _part in ("deeplabv3", "fcn"):  # modules of the library's package, which is drawn in one file
    if _segmentation is not None:
        sys.modules[f"{__name__}.segmentation.{_part}"] = _segmentation
        setattr(_segmentation, _part, _segmentation)


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
