"""What all networks share: none of them loads weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn


def builder(make: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """Return a function that takes what torchvision's take, and leaves the weights as they are made."""

    def build(pretrained: Any = False, progress: bool = True, *, weights: Any = None, **kwargs: Any) -> nn.Module:
        kwargs.pop("weights_backbone", None)
        kwargs.pop("init_weights", None)
        if pretrained or weights is not None:
            from preflight.dryrun.virtual.absent.missing import assume

            assume("pretrained weights of torchvision were not read")
        return make(**kwargs)

    return build


class Weights:
    """Names of weights, none of which is loaded."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("transforms", "meta", "url"):
            return {"transforms": lambda: _prepare, "meta": {"categories": [str(i) for i in range(1000)]}, "url": ""}[
                name
            ]
        return Weights()

    def get_state_dict(self, *_: Any, **__: Any) -> Any:
        """Return a checkpoint that is not there."""
        from preflight.dryrun.virtual.absent.checkpoints import Absent

        return Absent("weights of torchvision")


def _prepare(picture: Any) -> Any:
    """Return a picture as the networks of ImageNet take it."""
    from ..transforms import CenterCrop, Compose, Normalize, Resize, ToTensor

    mean, deviation = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    return Compose([Resize(256), CenterCrop(224), ToTensor(), Normalize(mean, deviation)])(picture)
