"""The run file of Weights & Biases (``run-ID.wandb``): its history of metrics, read without the program that wrote it.

The file is a log of records in the form of LevelDB: blocks of 32 KiB, in them chunks of a checksum, a length, a kind (whole,
first, middle, last) and data; a record is a message of Protocol Buffers. Of the messages only three are looked into: the
history (2), its items (1: key 1 or nested keys 2, JSON 16) and step (2: number 1), and the exit of the run (18: code 1).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any

from preflight.source.dumps.metric_names import row
from preflight.source.dumps.part import Part
from preflight.vocabulary.log import Ending, LogFile, LogKind, StepLine, Who

KIND: LogKind = "metrics"
_MAGIC = b":W&B"
_HEADER = 7
"""The magic, two bytes that say that a W&B program wrote it, and the version."""
_BLOCK = 32 * 1024
_CHUNK = 7
"""Bytes before the data of a chunk: a checksum of four, a length of two, a kind."""
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_HISTORY, _EXIT = 2, 18
_MOST_RECORD = 64 * 1024 * 1024


def looks_like(name: str, head: bytes) -> bool:
    """By the magic at its beginning."""
    return head.startswith(_MAGIC)


def read(content: bytes, file: LogFile) -> Part:
    """Read the history and the exit code; of a file that was cut off or damaged what is whole."""
    steps: list[StepLine] = []
    endings: list[Ending] = []
    damaged = 0
    for number, record in enumerate(_records(content), 1):
        try:
            for field, value in _fields(record) if record is not None else ():
                if field == _HISTORY and isinstance(value, bytes):
                    cells = _cells(value)
                    found = row(file, number, cells)
                    # The sums that a trainer logs when it is done are no step of it.
                    if found is not None and not any(name.endswith("train_runtime") for name in cells):
                        steps.append(found)
                elif field == _EXIT and isinstance(value, bytes):
                    endings.append(_ending(value, file))
        except ValueError:
            damaged += 1
        damaged += record is None
    times = [one.time for one in steps if one.time is not None]
    return Part(
        steps=tuple(steps),
        endings=tuple(endings),
        first_time=min(times, default=None),
        last_time=max(times, default=None),
        problem=f"{damaged} of its records are damaged or cut off; the others were read" if damaged else None,
    )


def _records(content: bytes) -> Iterator[bytes | None]:
    """Yield each record; None for one that is damaged."""
    at, parts = _HEADER, bytearray()
    open_ = False
    while at + _CHUNK <= len(content):
        left = _BLOCK - at % _BLOCK
        if left < _CHUNK:  # too little room for another chunk: zeros
            at += left
            continue
        length = int.from_bytes(content[at + 4 : at + 6], "little")
        kind = content[at + 6]
        data = content[at + _CHUNK : at + _CHUNK + length]
        told = int.from_bytes(content[at : at + 4], "little")
        good = len(data) == length <= left - _CHUNK and _WHOLE <= kind <= _LAST and _checksum(kind, data) == told
        if not good or (kind in (_MIDDLE, _LAST)) != open_:
            yield None
            at, open_ = (at + left, False) if not good else (at + _CHUNK + length, False)
            parts.clear()
            continue
        at += _CHUNK + length
        if kind in (_WHOLE, _FIRST):
            parts.clear()
        parts += data
        open_ = kind in (_FIRST, _MIDDLE) and len(parts) <= _MOST_RECORD
        if kind in (_WHOLE, _LAST):
            yield bytes(parts)
    if open_:
        yield None


def _checksum(kind: int, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(bytes((kind,))))


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message: numbers as they are, everything with a length as bytes, the rest passed over.

    Raises:
        ValueError: It is no message.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        field, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield field, value
        elif wire == 2:
            length, at = _varint(message, at)
            if at + length > len(message):
                raise ValueError("a field is longer than its message")
            yield field, message[at : at + length]
            at += length
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number has no end")


def _cells(history: bytes) -> dict[str, Any]:
    """Return a row of the history by the names of its values; those of nested ones joined by slashes."""
    cells: dict[str, Any] = {}
    step: int | None = None
    for field, value in _fields(history):
        if field == 2 and isinstance(value, bytes):
            step = next((one for inner, one in _fields(value) if inner == 1 and isinstance(one, int)), 0)
        elif field == 1 and isinstance(value, bytes):
            inner = list(_fields(value))
            names = [one.decode("utf-8", "replace") for name, one in inner if name in (1, 2) and isinstance(one, bytes)]
            text = next((one for name, one in inner if name == 16 and isinstance(one, bytes)), None)
            if text is not None:
                _take(cells, "/".join(name for name in names if name), text)
    cells.setdefault("_step", step)
    return cells


def _take(cells: dict[str, Any], name: str, text: bytes) -> None:
    """Put a value of a row in, one of many in its parts."""
    found = json.loads(text)
    if isinstance(found, dict):
        cells.update({f"{name}/{inner}": one for inner, one in found.items()})
    else:
        cells[name] = found


def _ending(message: bytes, file: LogFile) -> Ending:
    """Return how the program ended; a code that is left out is 0."""
    code = next((value for field, value in _fields(message) if field == 1 and isinstance(value, int)), 0)
    code = code - (1 << 64) if code >= 1 << 63 else code
    return Ending(about=Who(rank=file.who.rank, node=file.who.node), code=code, teller="wandb", file=file.index)
