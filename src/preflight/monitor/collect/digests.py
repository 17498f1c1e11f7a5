"""Rows about tensors that pass by: shape, dtype, norm, and for the input of a model a fingerprint of its beginning and end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .digest import norms, samples
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

    def tensors(self, entry: Entry, word: str, value: Any, bits: bool) -> None:
        """Hand over a row for each of the first few tensors in a value."""
        recorder = self.recorder
        found = few(value, self._tensor)
        if not found:
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
        if recorder.detail or word == "out":
            floating = [tensor.detach() if tensor.is_floating_point() else None for tensor in found]
            recorder.later(
                norms(floating),
                lambda values: [("tensor", (*row[:9], norm, row[9])) for row, norm in zip(rows, values, strict=True)],
            )
        if bits:
            self.batch(f"forward:{entry.object}", found, None)

    def batch(self, loader: str, found: list[Any], where: dict[str, Any] | None) -> None:
        """Hand over a row that identifies a batch."""
        recorder = self.recorder
        known = where or {}
        head = (recorder.number(), recorder.iteration, recorder.step, loader, known.get("fetch"), known.get("epoch"))
        size = len(found[0]) if found and found[0].dim() else None
        shapes = [list(tensor.shape) for tensor in found]
        dtypes = [dtype_of(tensor) for tensor in found]
        indices = known.get("indices")
        recorder.later(samples(found), lambda bits: [("batch", (*head, size, indices, list(bits), shapes, dtypes))])
