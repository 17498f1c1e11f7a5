"""Rows about tensors that pass by: shape, dtype, norm, and for the input of a model a fingerprint of its beginning and end."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from typing import Any

from .digest import samples
from .entry import Entry
from .pending import Pending, to_host
from .plain import DEVICES, Outside, impossible, parts, simple
from .recorder import Recorder

_MOST = 8
_DEPTH = 4


def tensors_in(value: Any, tensor: type, depth: int = _DEPTH) -> Iterator[Any]:
    """The tensors in nested tuples, lists, dictionaries and plain result objects, in order."""
    if isinstance(value, tensor):
        yield value
    elif depth and isinstance(value, (tuple, list)):
        for one in value:
            yield from tensors_in(one, tensor, depth - 1)
    elif depth and isinstance(value, dict):
        for one in list(value.values()):
            yield from tensors_in(one, tensor, depth - 1)
    elif depth and hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors_in(getattr(value, name, None), tensor, depth - 1)


def few(value: Any, tensor: type) -> list[Any]:
    """The first few tensors in a value."""
    if isinstance(value, tensor):
        return [value]
    if type(value) is tuple and len(value) == 1 and isinstance(value[0], tensor):
        return [value[0]]
    found: list[Any] = []
    for one in tensors_in(value, tensor):
        found.append(one)
        if len(found) == _MOST:
            break
    return found


def dtype_of(tensor: Any) -> str:
    """The dtype without ``torch.``."""
    return str(tensor.dtype)[6:]


class Digests:
    """Takes digests of tensors that pass by and hands over their rows."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        torch = recorder.torch
        self._tensor = torch.Tensor
        # What norms are taken of, and what they are added up in where that is another kind.
        self._kinds = {
            **dict.fromkeys((torch.float32, torch.float64)),
            **dict.fromkeys((torch.bfloat16, torch.float16), torch.float32),
        }
        self._words: dict[Any, str] = {}
        self._gathered: list[tuple[tuple[Any, ...], Any]] = []
        self._wanted = recorder.wants("tensor")
        self._last: tuple[Any, int, Any] = (None, 0, None)

    def entering(self, entry: Entry, args: Any, root: bool) -> None:
        """Gather rows of what goes into a module; of a root's the fingerprints are taken too.

        What goes into a part has come out of another one: its norm is taken there.
        """
        if not (root or self._wanted):
            return
        found = few(args, self._tensor)
        if root and found:
            self.batch(f"forward:{entry.object}", found, None)
        if self._wanted:
            sizes = self._norms(found) if root and self.recorder.detail else [None] * len(found)
            for position, tensor in enumerate(found):
                self._gathered.append((self._row(entry, f"in{position}", tensor), sizes[position]))

    def leaving(self, entry: Entry, value: Any) -> None:
        """Gather rows of what comes out of a module, and start the norms."""
        if not self._wanted:
            return
        found = few(value, self._tensor)
        if not found:
            return
        sizes = self._norms(found)
        for position, tensor in enumerate(found):
            self._gathered.append((self._row(entry, f"out{position}", tensor), sizes[position]))

    def _row(self, entry: Entry, position: str, tensor: Any) -> tuple[Any, ...]:
        recorder = self.recorder
        return (
            recorder.number(),
            recorder.iteration,
            recorder.step,
            entry.number,
            entry.object,
            position,
            self._word(tensor.dtype)[6:],
            list(tensor.shape),
            self._word(tensor.device),
            tensor.requires_grad,
        )

    def _word(self, value: Any) -> str:
        """The text of a dtype or device, made once."""
        word = self._words.get(value)
        if word is None:
            word = self._words[value] = str(value)
        return word

    def _norms(self, found: list[Any]) -> list[Any]:
        """Start the norms, each a tensor without dimensions on its device; None where there is none to take."""
        torch = self.recorder.torch
        last, version, size = self._last
        if last is not None and len(found) == 1 and last() is found[0] and version == found[0]._version:
            return [size]  # a container gives what its last part gave
        if impossible(torch):
            return [None] * len(found)
        sizes: list[Any] = []
        with Outside(torch):
            for tensor in found:
                if tensor.dtype not in self._kinds:
                    sizes.append(None)
                    continue
                plain = (tensor,) if tensor.device.type in DEVICES and simple(tensor) else parts(torch, tensor)
                if plain is None or len(plain) != 1 or not plain[0].numel():
                    sizes.append(None)
                else:
                    sizes.append(torch.linalg.vector_norm(plain[0], dtype=self._kinds[tensor.dtype]))
        # Of an inference tensor nobody counts how often it was written to.
        kept = not found[-1].is_inference()
        self._last = (weakref.ref(found[-1]), found[-1]._version, sizes[-1]) if kept else (None, 0, None)
        return sizes

    def hand_over(self) -> None:
        """Hand over the rows that were gathered, all their norms read at once."""
        gathered, self._gathered = self._gathered, []
        self._last = (None, 0, None)
        if not gathered:
            return
        torch = self.recorder.torch
        by_device: dict[Any, list[int]] = {}
        for position, (_, size) in enumerate(gathered):
            if size is not None:
                by_device.setdefault(size.device, []).append(position)
        order = [position for positions in by_device.values() for position in positions]
        reads = []
        if by_device and not impossible(torch):
            with Outside(torch):
                reads = [
                    to_host(torch, _stacked(torch, [gathered[one][1] for one in positions]))
                    for positions in by_device.values()
                ]
        elif by_device:
            order = []
        rows = [row for row, _ in gathered]
        pending = Pending(reads, lambda read: _spread(read, order, len(rows)))
        self.recorder.later(pending, lambda values: _rows(rows, values))

    def batch(self, loader: str, found: list[Any], where: dict[str, Any] | None) -> None:
        """Hand over a row that identifies a batch."""
        recorder = self.recorder
        if not found or not recorder.wants("batch"):
            return
        known = where or {}
        head = (recorder.number(), recorder.iteration, recorder.step, loader, known.get("fetch"), known.get("epoch"))
        size = len(found[0]) if found and found[0].dim() else None
        shapes = [list(tensor.shape) for tensor in found]
        dtypes = [dtype_of(tensor) for tensor in found]
        indices = known.get("indices")
        recorder.later(samples(found), lambda bits: [("batch", (*head, size, indices, list(bits), shapes, dtypes))])


def _stacked(torch: Any, sizes: list[Any]) -> Any:
    """The norms of one device as one vector."""
    kind = torch.float32
    return torch.stack([size if size.dtype is kind else size.to(kind) for size in sizes])


def _spread(read: list[list[float]], order: list[int], count: int) -> list[float | None]:
    """The numbers that were read, at the positions that they belong to; what is not finite is NaN."""
    values: list[float | None] = [None] * count
    for position, number in zip(order, (number for numbers in read for number in numbers), strict=True):
        values[position] = number if math.isfinite(number) else math.nan
    return values


def _rows(rows: list[tuple[Any, ...]], values: list[float | None]) -> list[tuple[str, tuple[Any, ...]]]:
    return [("tensor", (*row[:9], norm, row[9])) for row, norm in zip(rows, values, strict=True)]
