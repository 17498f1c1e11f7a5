"""Whether the samples that a data set holds were scaled, shifted or written into where they lie since the loop before.

Of each table of numbers with a row for each sample some rows are kept, and compared when the next loop over the loader
begins. That all of them are others now, and are a multiple of what they were, or still much like it, is told; what they are
is not.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Iterator
from typing import Any

from .orders import length_of
from .plain import Outside, impossible, plain_types, simple
from .recorder import Recorder

NAME, WRITTEN = "stored.rescaled", "stored.written"
_FIRST = 6  # loops over a loader after which few are looked at
_EVERY = 8
_ROWS = 16
_WIDE = 256  # numbers of a row
_MOST_TABLES = 8
_MOST_WRAPPED = 4
_EXACT = 1e-4  # what rounding may make of a multiple, as a share of what there is
_CHANGED = 1e-3
_ALIKE = 0.5  # how a row goes with what it was, where a part of it was masked or noise was added
_LEAST = 16  # numbers of a row of which that is said
_FURTHER = 1.1  # how much further than in the loop before they lie from what they were at first


class Stored:
    """Keeps some rows of the data sets of loaders."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._rows: weakref.WeakKeyDictionary[Any, dict[str, tuple[int, Any]]] = weakref.WeakKeyDictionary()
        self._first: weakref.WeakKeyDictionary[Any, dict[str, tuple[int, Any]]] = weakref.WeakKeyDictionary()
        self._lengths: weakref.WeakKeyDictionary[Any, int | None] = weakref.WeakKeyDictionary()
        plain_types(recorder.torch)

    def begins(self, loader: Any, name: str, epoch: int) -> None:
        """A loop over a loader begins: tell what was done to its data, where they lie, since the one before."""
        torch = self.recorder.torch
        if (epoch >= _FIRST and epoch % _EVERY > 1) or not self.recorder.wants(NAME) or impossible(torch):
            return
        dataset = _whole(getattr(loader, "dataset", None))
        if loader not in self._lengths:  # what the program wrote to answer is asked once
            self._lengths[loader] = length_of(dataset)
        with Outside(torch):
            tables = list(_tables(torch, dataset, self._lengths[loader]))
            now = {word: (_address(table), _some(torch, table)) for word, table in tables}
            for word, (address, before) in self._rows.get(loader, {}).items():
                there, rows = now.get(word, (0, before))
                if there == address and rows.shape == before.shape:  # a table that was made anew is another one
                    rescaled = _rescaled(before, rows)
                    self.recorder.scalar(NAME, f"{name}#{word}", float(rescaled))
                    begun, first = self._first[loader].get(word, (0, rows))
                    written = not rescaled and begun == address and _written(first, before, rows)
                    size = math.prod(dict(tables)[word].shape[1:]) if written else 0
                    self.recorder.scalar(WRITTEN, f"{name}#{word}", float(size))
        self._rows[loader] = now
        self._first.setdefault(loader, now)


def _whole(dataset: Any) -> Any:
    """The data set of which one is a part."""
    for _ in range(_MOST_WRAPPED):
        if type(dataset) is not sys.modules["torch.utils.data"].Subset:
            break
        dataset = dataset.dataset
    return dataset


def _tables(torch: Any, dataset: Any, length: int | None) -> Iterator[tuple[str, Any]]:
    """Tables of numbers, in memory of the processor, that a data set holds, with a row of several for each sample."""
    data = sys.modules["torch.utils.data"]
    held = getattr(dataset, "__dict__", None)
    if not isinstance(held, dict) or length is None or length < 2 * _ROWS:
        return
    count = 0
    several = held.get("tensors") if type(dataset) is data.TensorDataset else None
    numpy = sys.modules.get("numpy")
    named = [(f"tensors[{at}]", one) for at, one in enumerate(several)] if several is not None else list(held.items())
    for name, table in named:
        if numpy is not None and type(table) is numpy.ndarray:
            if table.dtype not in (numpy.float32, numpy.float64) or not table.flags.writeable:
                continue
        elif (
            not isinstance(table, torch.Tensor)
            or not simple(table)
            or not table.is_cpu
            or not table.is_floating_point()
            or table.requires_grad
        ):
            continue
        shape = table.shape
        if len(shape) > 1 and shape[0] == length and min(shape) and sum(shape[1:]) > len(shape) - 1:
            yield name, table
            count += 1
            if count == _MOST_TABLES:
                return


def _address(table: Any) -> int:
    """Where a table lies."""
    return int(table.data_ptr() if hasattr(table, "data_ptr") else table.__array_interface__["data"][0])


def _some(torch: Any, table: Any) -> Any:
    """A copy of some rows of a table, spread over it."""
    rows = table[:: len(table) // _ROWS][:_ROWS]
    kept = torch.from_numpy(rows.copy()) if not isinstance(rows, torch.Tensor) else rows.detach()
    return kept.reshape(len(rows), -1)[:, :_WIDE].double().clone()


def _written(first: Any, before: Any, now: Any) -> bool:
    """Whether all rows are others, each still goes with what it was, and they go away from those of the first loop.

    A table that is made anew of samples kept elsewhere (other noise each time) stays as far from its first state.
    """
    if before.shape[1] < _LEAST or first.shape != now.shape or not bool((before != now).any(1).all()):
        return False
    one, other = before - before.mean(1, keepdim=True), now - now.mean(1, keepdim=True)
    sizes = one.norm(dim=1) * other.norm(dim=1)
    alike = bool((sizes > 0).all() and ((one * other).sum(1) >= _ALIKE * sizes).all())
    return alike and bool((now - first).norm() > _FURTHER * (before - first).norm())


def _rescaled(before: Any, now: Any) -> bool:
    """Whether all rows are others, and all of them one multiple of what they were: of the whole, or column by column."""
    size = before.abs().amax(1) + 1e-30
    if not bool(((now - before).abs().amax(1) > _CHANGED * size).all()):
        return False
    return any(_multiple(*pair) for pair in ((before.reshape(-1, 1), now.reshape(-1, 1)), (before, now)))


def _multiple(before: Any, now: Any) -> bool:
    """Whether each column is a factor times what it was, and a number more; columns that hold one number say nothing."""
    one, other = before - before.mean(0), now - now.mean(0)
    power = (one * one).sum(0)
    told = power > 1e-12 * (before * before).sum(0)
    if not bool(told.any()):
        return False
    factor = (one * other).sum(0)[told] / power[told]
    off = (other[:, told] - factor * one[:, told]).abs().amax(0)
    return bool((off <= _EXACT * other[:, told].abs().amax(0)).all() and (factor != 0).all())
