"""The stack of a pickle that is read: values, marks and what was put aside."""

from __future__ import annotations

from typing import Any


class RefusedError(Exception):
    """A pickle wants to look up a name."""


class CutError(Exception):
    """A pickle ends, or says what cannot be."""


class Machine:
    """The stack of a pickle: segments of values, one more for each open mark."""

    __slots__ = ("at", "data", "memo", "segments", "top")

    def __init__(self, data: bytes) -> None:
        """Begin at the first byte."""
        self.data = data
        self.at = 0
        self.top: list[Any] = []
        self.segments: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        end = self.at + size
        if end > len(self.data):
            raise CutError(f"it is cut off: {size} bytes wanted at {self.at}, {len(self.data) - self.at} are there")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def line(self) -> bytes:
        """Return what stands before the end of the line."""
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise CutError("it is cut off within a line")
        piece = self.data[self.at : end]
        self.at = end + 1
        return piece

    def close(self) -> list[Any]:
        """Return the values since the last mark."""
        if not self.segments:
            raise CutError("an end without a beginning")
        values, self.top = self.top, self.segments.pop()
        return values


_KEYS = (str, int, float, bytes, tuple, type(None))


def fill(holder: dict[Any, Any], values: list[Any]) -> None:
    """Set pairs; what cannot be a key is left out."""
    if not isinstance(holder, dict):
        raise CutError("values for a dictionary that is none")
    pairs = zip(values[::2], values[1::2], strict=False)
    holder.update({key: value for key, value in pairs if isinstance(key, _KEYS)})
