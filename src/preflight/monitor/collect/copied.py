"""Fingerprints of small batches, worked out by the thread that writes: the program pays for a copy alone.

Of a small tensor nearly all of the time of a fingerprint is torch's way to some twenty operations, which on a GPU are as
many kernels in each forward pass. The thread that writes takes those of several iterations at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from . import plain
from .checksum import of_words
from .checksum_grid import SERIAL
from .columns import TABLES
from .pending import Pending

_MOST = 1 << 15
"""Bytes of a batch up to which it is copied: as the writer lets about a thousand rows hold copies, 32 MB at most wait."""
_FEW = 4
_BITS = list(TABLES["batch"]).index("bits")

Row = tuple[Any, ...]


class Copied:
    """A copy of the tensors of a batch, which stands in its row for their fingerprints until the row is written.

    Attributes:
        words: The tensors one after the other, as words in memory of the processor, or as bytes: of what lay there in one
            piece, and of what has come from a device.
        size: Bytes of each tensor.
        here: Whether nothing has to come from a device.
        coming: There once the copy has come from its device; it has no values.
    """

    __slots__ = ("_count", "coming", "here", "size", "words")

    def __init__(self, words: Any, count: int, size: int, event: Any = None) -> None:
        """Take the words, of how many tensors of which size they are, and the event that says when they are filled."""
        self.words = words
        self.size = size
        self.here = event is None
        self.coming = Pending([], list) if event is None else Pending([(words[:0], event)], self._landed)
        self._count = count

    def __len__(self) -> int:
        """How many fingerprints it stands for."""
        return self._count

    def _landed(self, read: list[list[Any]]) -> list[Any]:
        """Take the words out of pinned memory, past whatever the program has switched on.

        To give pinned memory back asks the driver, which the thread that writes must not do: the program may be capturing
        a graph by then, and in a forked child, which drops what waits to be written, it would end the process.
        """
        self.words = bytearray(_memory(self.words, self.words.numel() * self.words.itemsize))
        return []


def copied(torch: Any, tensors: Sequence[Any]) -> Copied | None:
    """Copy a few small tensors of one kind and shape; None where they are others, or nothing may be computed.

    From a GPU they are still on their way: the row is handed over once they have come (``Copied.coming``).

    Args:
        torch: The torch that is loaded.
        tensors: The tensors of a batch.
    """
    try:
        plain.plain_types(torch)
        if not 0 < len(tensors) <= _FEW or not all(map(plain.simple, tensors)):
            return None
        first = tensors[0]
        if not (first.is_cpu or first.is_cuda) or any(other.device != first.device for other in tensors[1:]):
            return None
        size: int = first.numel() * first.itemsize
        if not size or size & 7 or size * len(tensors) > _MOST or plain.impossible(torch):
            return None
        if any(other.dtype is not first.dtype or other.shape != first.shape for other in tensors[1:]):
            return None
        if first.is_cpu and all(tensor.is_contiguous() for tensor in tensors):
            return Copied(bytearray().join(_memory(tensor, size) for tensor in tensors), len(tensors), size)
        with plain.Outside(torch):
            words, event = (torch.stack(list(tensors)), None) if first.is_cpu else _fetched(torch, tensors)
            return Copied(words.view(-1).view(torch.int64), len(tensors), size, event)
    except Exception:
        return None  # without a copy they are taken at once, or nothing is claimed


def _memory(tensor: Any, size: int) -> bytes:
    """The bytes of a tensor that lies in memory of the processor in one piece, without an operation of torch's."""
    return ctypes.string_at(tensor.data_ptr(), size)


def _fetched(torch: Any, tensors: Sequence[Any]) -> tuple[Any, Any]:
    """Start to copy tensors from a GPU to the host; return the tensor there and the event that fills it."""
    first = tensors[0]
    with torch.cuda.device(first.device):
        host = torch.empty((len(tensors), *first.shape), dtype=first.dtype, device="cpu", pin_memory=True)
        for place, tensor in enumerate(tensors):
            host[place].copy_(tensor, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
    return host, event


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
                numbers = iter(
                    of_words(torch, torch.cat([_words(torch, one) for one in some]).view(-1, size >> 3), size)
                )
                found += [[next(numbers) for _ in range(len(one))] for one in some]
        except Exception:
            found += [[None] * len(one) for one in some]
    return found


def _words(torch: Any, copy: Copied) -> Any:
    """The words of a copy as a tensor."""
    return torch.frombuffer(copy.words, dtype=torch.int64) if type(copy.words) is bytearray else copy.words
