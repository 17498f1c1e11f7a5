"""Indexing with Python lists: PyTorch makes a tensor of the list in C++, on the device, where no mode sees it."""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual import private

Fake = private.fake_class()


def install() -> None:
    """Make tensors of lists on the host first; as indices of a tensor on a GPU they mean the same."""
    read, write = torch.Tensor.__getitem__, torch.Tensor.__setitem__
    Fake.__getitem__ = lambda tensor, index: read(tensor, _unlisted(index))
    Fake.__setitem__ = lambda tensor, index, value: write(tensor, _unlisted(index), value)


def _unlisted(index: Any) -> Any:
    if isinstance(index, tuple) and any(isinstance(part, list) for part in index):
        return tuple(_unlisted(part) for part in index)
    if isinstance(index, list) and index and all(isinstance(part, (int, bool)) for part in index):
        return torch.tensor(index)
    return index
