"""Fingerprints of small batches, worked out by the thread that writes: the program pays for a copy alone.

Of a small tensor nearly all of the time of a fingerprint is torch's way to some twenty operations.
The thread that writes takes those of several iterations at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import plain
from .checksum import SERIAL, of_words
from .columns import TABLES

_MOST = 1 << 15
"""Bytes of a batch up to which it is copied: as the writer lets about a thousand rows hold copies, 32 MB at most wait."""
_FEW = 4
_BITS = list(TABLES["batch"]).index("bits")

Row = tuple[Any, ...]


class Copied:
    """A copy of the tensors of a batch, which stands in its row for their fingerprints until the row is written."""

    __slots__ = ("_count", "size", "words")

    def __init__(self, words: Any, count: int, size: int) -> None:
        self.words = words
        self.size = size  # bytes of each tensor
        self._count = count

    def __len__(self) -> int:
        """How many fingerprints it stands for."""
        return self._count


def copied(torch: Any, tensors: Sequence[Any]) -> Copied | None:
    """Copy a few small tensors of one kind and shape on a CPU; None where they are others, or nothing may be computed.

    Args:
        torch: The torch that is loaded.
        tensors: The tensors of a batch.
    """
    try:
        plain.plain_types(torch)
        if not 0 < len(tensors) <= _FEW or not all(plain.simple(tensor) and tensor.is_cpu for tensor in tensors):
            return None
        first = tensors[0]
        size: int = first.numel() * first.itemsize
        if not size or size & 7 or size * len(tensors) > _MOST or plain.impossible(torch):
            return None
        if any(other.dtype is not first.dtype or other.shape != first.shape for other in tensors[1:]):
            return None
        with plain.Outside(torch):
            return Copied(torch.stack(list(tensors)).view(-1).view(torch.int64), len(tensors), size)
    except Exception:
        return None  # without a copy they are taken at once, or nothing is claimed


def told(rows: list[tuple[str, Row]]) -> list[tuple[str, Row]]:
    """Put the fingerprints into the rows that hold copies; None stands for those that could not be taken.

    Args:
        rows: Rows with their kinds.
    """
    places: dict[int, list[int]] = {}
    for at, (kind, row) in enumerate(rows):
        if kind == "batch" and type(row[_BITS]) is Copied:
            places.setdefault(row[_BITS].size, []).append(at)
    for size, ats in places.items():
        waiting = [rows[at][1][_BITS] for at in ats]
        for at, bits in zip(ats, _numbers(waiting, size), strict=True):
            row = rows[at][1]
            rows[at] = ("batch", (*row[:_BITS], bits, *row[_BITS + 1 :]))
    return rows


def _numbers(waiting: list[Copied], size: int) -> list[list[int | None]]:
    """The fingerprints of copies of tensors of one size, so many at a time that torch wakes no other threads."""
    torch = plain.loaded()
    many = max(SERIAL * 8 // (size * max(map(len, waiting))), 1)
    found: list[list[int | None]] = []
    for first in range(0, len(waiting), many):
        some = waiting[first : first + many]
        try:
            # Of this thread alone: another one that compiles or captures has nothing to do with these copies.
            if plain.transformed(torch):
                raise RuntimeError("the operations would be followed")
            with plain.Outside(torch):
                numbers = iter(of_words(torch, torch.cat([one.words for one in some]).view(-1, size >> 3), size))
                found += [[next(numbers) for _ in range(len(one))] for one in some]
        except Exception:
            found += [[None] * len(one) for one in some]
    return found
