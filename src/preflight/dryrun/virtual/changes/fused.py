"""The fused kernel of PyTorch's own optimizers, which needs no temporaries of the size of the parameters."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from preflight.dryrun.virtual.changes import Change, Run


def install(change: Change, run: Run) -> None:
    """Make the optimizers that have one with ``fused=True``."""
    for kind in {value for value in vars(torch.optim).values() if isinstance(value, type)}:
        if kind is not torch.optim.Optimizer and issubclass(kind, torch.optim.Optimizer):
            _fuse(change, kind)


def _fuse(change: Change, kind: Any) -> None:
    make = kind.__init__
    names = list(inspect.signature(make).parameters)

    def made(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        given = dict(zip(names[1:], args, strict=False)) | kwargs
        name = type(optimizer).__name__
        if type(optimizer) is not kind:
            pass  # a class that rests on this one
        elif "fused" not in names:
            change.cannot(f"{name} has no fused kernel")
        elif given.get("fused"):
            change.cannot(f"{name} is fused already")
        elif "fused" not in names[1 : len(args) + 1] and not given.get("differentiable"):
            kwargs = {**{key: value for key, value in kwargs.items() if key != "foreach"}, "fused": True}
            change.did(f"{name}(fused=True)")
        make(optimizer, *args, **kwargs)

    kind.__init__ = made
