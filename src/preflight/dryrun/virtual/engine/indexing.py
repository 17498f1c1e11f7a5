"""Indexing with lists, ranges and arrays: PyTorch makes a tensor of them in C++, on the device, where no mode sees it."""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual import private

Fake = private.fake_class()


def install() -> None:
    """Make tensors of them on the host first; as indices of a tensor on a GPU they mean the same."""
    read, write = torch.Tensor.__getitem__, torch.Tensor.__setitem__
    Fake.__getitem__ = lambda tensor, index: read(tensor, _unlisted(index))
    Fake.__setitem__ = lambda tensor, index, value: write(tensor, _unlisted(index), value)


def _unlisted(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(map(_one, index)) if any(not isinstance(part, _TAKEN) for part in index) else index
    return index if isinstance(index, _TAKEN) else _one(index)


_TAKEN = (int, slice, type(None), type(Ellipsis), torch.Tensor)
"""What an index is mostly made of, and PyTorch takes as it is."""


def _one(part: Any) -> Any:
    if isinstance(part, (list, range)) and all(map(_number, part)):
        return torch.tensor(list(part), dtype=None if len(part) else torch.long)
    if type(part).__module__ == "numpy" and getattr(part, "ndim", None):
        return torch.as_tensor(part)
    return part


def _number(item: Any) -> bool:
    """Whether an item of a list is a whole number, a truth value, or a list of such."""
    return isinstance(item, list) or (hasattr(type(item), "__index__") and not isinstance(item, torch.Tensor))
