"""What all networks share: none of them loads weights."""

from __future__ import annotations

from typing import Any


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
