"""Rows about tensors that pass by: shape, dtype, norm, and for the input of a model a fingerprint of its beginning and end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from .digest import samples
from .pending import Pending, to_host
from .plain import Outside, impossible, parts
from .recorder import Entry, Recorder

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
        self._tensor = recorder.torch.Tensor
        self._gathered: list[tuple[tuple[Any, ...], Any]] = []

    def tensors(self, entry: Entry, word: str, value: Any, bits: bool) -> None:
        """Hand over a row for each of the first few tensors in a value."""
        recorder = self.recorder
        found = few(value, self._tensor)
        if not found:
            return
        if bits:
            self.batch(f"forward:{entry.object}", found, None)
        if not recorder.wants("tensor"):
            return
        rows = [
            (
                recorder.number(),
                recorder.iteration,
                recorder.step,
                entry.number,
                entry.object,
                f"{word}{position}",
                dtype_of(tensor),
                list(tensor.shape),
                str(tensor.device),
                tensor.requires_grad,
            )
            for position, tensor in enumerate(found)
        ]
        # What goes into a module has come out of another: its norm is taken there, or known by the batch's fingerprint.
        sizes = self._norms(found) if word == "out" else [None] * len(found)
        self._gathered.extend(zip(rows, sizes, strict=True))

    def _norms(self, found: list[Any]) -> list[Any]:
        """Start the norms, each a tensor without dimensions on its device; None where there is none to take."""
        torch = self.recorder.torch
        if impossible(torch):
            return [None] * len(found)
        sizes: list[Any] = []
        with Outside(torch):
            for tensor in found:
                plain = parts(torch, tensor) if tensor.is_floating_point() else None
                if plain is None or len(plain) != 1 or not plain[0].numel():
                    sizes.append(None)
                    continue
                coarse = plain[0].dtype in (torch.bfloat16, torch.float16)
                sizes.append(torch.linalg.vector_norm(plain[0], dtype=torch.float32 if coarse else None))
        return sizes

    def hand_over(self) -> None:
        """Hand over the rows that were gathered, all their norms read at once."""
        gathered, self._gathered = self._gathered, []
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
                    to_host(torch, torch.stack([gathered[one][1].float() for one in positions]))
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


def _spread(read: list[list[float]], order: list[int], count: int) -> list[float | None]:
    """The numbers that were read, at the positions that they belong to; what is not finite is NaN."""
    values: list[float | None] = [None] * count
    for position, number in zip(order, (number for numbers in read for number in numbers), strict=True):
        values[position] = number if math.isfinite(number) else math.nan
    return values


def _rows(rows: list[tuple[Any, ...]], values: list[float | None]) -> list[tuple[str, tuple[Any, ...]]]:
    return [("tensor", (*row[:9], norm, row[9])) for row, norm in zip(rows, values, strict=True)]
