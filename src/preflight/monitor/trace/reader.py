"""Reads the blocks of one segment as they come, whole or cut, and names what cannot be read."""

from __future__ import annotations

import binascii
import json
import struct
import zlib
from collections import deque
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from preflight.errors import TraceError
from preflight.monitor.collect.columns import HEAD, MAGIC, TABLES, WRITER
from preflight.monitor.collect.encode import PACKED

Columns = dict[str, list[Any]]
Tables = dict[str, Columns]
"""The rows of each kind, as columns of equal length."""

CHUNK = 1 << 20
"""Bytes read at once."""
LARGEST = 1 << 28
"""Bytes of the largest content of a block that is believed."""


class Block(msgspec.Struct, frozen=True):
    """A block: its number in the file, where it begins and ends, its tables, and whether bytes before it are lost."""

    number: int
    start: int
    end: int
    tables: Tables
    after_damage: bool = False

    @property
    def rows(self) -> int:
        """How many rows there are, of all kinds."""
        return sum(map(count, self.tables.values()))

    @property
    def after_loss(self) -> bool:
        """Whether rows that were put before its last one are missing: unreadable ones, or ones that were never written.

        What comes later in the file may rest on them, as a step does on what an optimizer was said to hold.
        """
        return self.after_damage or WRITER in self.tables.get("trouble", {}).get("where", ())


class Damage(msgspec.Struct, frozen=True):
    """Bytes of a file that hold no readable block: from, up to, and what is wrong with them."""

    start: int
    end: int
    reason: str


def count(columns: Columns) -> int:
    """Return the number of rows."""
    return len(next(iter(columns.values()))) if columns else 0


class Reader:
    """Reads one segment from its beginning, again and again while it grows.

    Attributes:
        path: The file.
        offset: Up to where it was read.
        blocks: Blocks read so far.
        damage: What could not be read so far.
    """

    def __init__(self, path: Path, kinds: frozenset[str] | None = None) -> None:
        """Read nothing yet; with ``kinds``, other kinds of rows are left out."""
        self.path = path
        self.offset = 0
        self.blocks = 0
        self.damage: list[Damage] = []
        self._kinds = kinds
        self._words: dict[str, str] = {}
        self._starts: deque[int] = deque(maxlen=64)
        self._reason = CUT

    def poll(self) -> Iterator[Block]:
        """Yield the blocks that are complete and were not read before.

        A block that is cut at the end of the file waits for the rest of it.

        Raises:
            TraceError: The file is gone, or of a newer format.
        """
        try:
            stream = self.path.open("rb")
        except OSError as error:
            raise TraceError(f"{self.path} cannot be read: {error.strerror}") from error
        with stream:
            size = stream.seek(0, 2)
            if size < self.offset:
                self._go_back(stream, size)
            while size - self.offset >= HEAD:
                block = self._block(stream, size)
                if block is not None:
                    yield block
                elif not self._skip(stream, size):
                    return

    def finish(self) -> None:
        """Count what is left at the end as damage: nobody writes any more."""
        size = self.path.stat().st_size if self.path.exists() else self.offset
        if size > self.offset:
            self._lose(size, self._reason if size - self.offset >= HEAD else CUT)

    def _go_back(self, stream: BinaryIO, size: int) -> None:
        """Read on in a file that became shorter: where its writer put an end in the place of its last blocks."""
        for start in reversed(self._starts):
            if start < size:
                found = _whole(stream, start, size)
                if not isinstance(found, str) and start + HEAD + len(found) == size:
                    self.offset = start
                    return
        self.damage.append(Damage(size, self.offset, "the file became shorter after it was read"))
        self.offset = size

    def _block(self, stream: BinaryIO, size: int) -> Block | None:
        """Return the block here and go behind it; None where there is none that is whole, with the reason kept."""
        start = self.offset
        found = _whole(stream, start, size)
        if isinstance(found, str):
            self._reason = found
            return None
        self._starts.append(start)
        self.offset = start + HEAD + len(found)
        number, self.blocks = self.blocks, self.blocks + 1
        try:
            tables = decode(found, self._kinds, self._words)
        except _NOT_TABLES as error:
            self.damage.append(Damage(start, self.offset, f"its content is no table: {error}"[:200]))
            tables = {}
        return Block(number, start, self.offset, tables, after_damage=bool(self.damage))

    def _skip(self, stream: BinaryIO, size: int) -> bool:
        """Go to the next whole block after damage; where there is none yet, wait where we are."""
        start = max(self.offset + 1, 0)
        for at in _magics(stream, start, size):
            if not isinstance(_whole(stream, at, size), str):
                self._lose(at, "a block is cut" if self._reason == CUT else self._reason)
                return True
        if self.offset == 0:
            self._refuse_newer(stream)
        return False

    def _lose(self, end: int, reason: str) -> None:
        self.damage.append(Damage(self.offset, end, reason))
        self.offset = end
        self._reason = CUT

    def _refuse_newer(self, stream: BinaryIO) -> None:
        stream.seek(0)
        head = stream.read(4)
        if head[:3] == MAGIC[:3] and head[3:].isdigit() and head > MAGIC:
            raise TraceError(
                f"{self.path} is written in format {head[3:].decode()}, and this version reads format 1",
                hint="read it with the version of preflight that wrote it, or a newer one",
            )


CUT = "the last block is cut"
_NOT_TABLES = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
    zlib.error,
    struct.error,
)


def is_segment(path: Path) -> bool:
    """Whether the file begins as a segment does; an empty one may become one."""
    try:
        with path.open("rb") as stream:
            head = stream.read(len(MAGIC))
    except OSError:
        return False
    return MAGIC.startswith(head) if len(head) < len(MAGIC) else head[:3] == MAGIC[:3] and head[3:].isdigit()


def _whole(stream: BinaryIO, start: int, size: int) -> bytes | str:
    """Return the payload of the block that begins here, or why there is none."""
    stream.seek(start)
    head = stream.read(HEAD)
    if head[:4] != MAGIC:
        return "no block begins here"
    if len(head) < HEAD:
        return CUT
    length, checksum = struct.unpack("<II", head[4:])
    if not length:  # zeros have the checksum of nothing; no writer makes a block of it
        return "a block holds nothing"
    if start + HEAD + length > size:
        return CUT
    payload = stream.read(length)
    return payload if zlib.crc32(payload) == checksum else "the checksum of a block is wrong"


def _magics(stream: BinaryIO, start: int, size: int) -> Iterator[int]:
    """Yield where the magic stands, from ``start`` on."""
    at = start
    while at < size:
        stream.seek(at)
        chunk = stream.read(CHUNK)
        found = chunk.find(MAGIC)
        while found >= 0:
            yield at + found
            found = chunk.find(MAGIC, found + 1)
        if len(chunk) < CHUNK:
            return
        at += len(chunk) - len(MAGIC) + 1


def decode(payload: bytes, kinds: frozenset[str] | None = None, words: dict[str, str] | None = None) -> Tables:
    """Return the tables of a payload.

    Args:
        payload: What stands in a block.
        kinds: The kinds of rows that are wanted; None for all.
        words: Strings that are known already, so that equal ones are one object.

    Raises:
        ValueError: And others of ``_NOT_TABLES``, where it holds something else.
    """
    unpack = zlib.decompressobj()
    content = unpack.decompress(payload, LARGEST)
    if unpack.unconsumed_tail:
        raise ValueError(f"it is larger than {LARGEST} bytes")
    known: dict[str, str] = {} if words is None else words
    tables = _document(content)["tables"]
    return {kind: _columns(kind, raw, known) for kind, raw in tables.items() if kinds is None or kind in kinds}


def _document(content: bytes) -> Any:
    """Return the JSON, by the faster of two readers where it holds no NaN and no infinity."""
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        return json.loads(content)


def _columns(kind: str, raw: dict[str, Any], words: dict[str, str]) -> Columns:
    """Return the columns with their values, those that are declared first and in their order."""
    declared = TABLES.get(kind, {})
    columns = {name: _values(column, words) for name, column in raw.items()}
    lengths = set(map(len, columns.values()))
    if len(lengths) > 1:
        raise ValueError(f"columns of {kind} have different lengths")
    rows = lengths.pop() if lengths else 0
    ordered = {name: columns.pop(name) if name in columns else [None] * rows for name in declared}
    for name, type_ in declared.items():
        if type_ == "float" and int in set(map(type, ordered[name])):
            ordered[name] = [float(value) if type(value) is int else value for value in ordered[name]]
    return {**ordered, **columns}


def _values(column: Any, words: dict[str, str]) -> list[Any]:
    """Return the values of a column that is stored in one of the forms of the writer."""
    if isinstance(column, list):
        return column
    if "sum" in column:
        return list(accumulate(column["sum"]))
    if "words" in column:
        different = [words.setdefault(word, word) if type(word) is str else word for word in column["words"]]
        if column["at"] and min(column["at"]) < 0:
            raise ValueError("a row names no word")
        return list(map(different.__getitem__, column["at"]))
    for declared, (letter, _) in PACKED.items():
        if declared in column:
            return [_unpacked(value, letter) for value in column[declared]]
    if not 0 <= column["n"] <= LARGEST >> 4:
        raise ValueError("a value is repeated too often")
    return [column["all"]] * column["n"]


def _unpacked(value: Any, letter: str) -> list[Any] | None:
    """Return a list of numbers from its bytes."""
    if value is None:
        return None
    if isinstance(value, str):
        data = binascii.a2b_base64(value)
        return list(struct.unpack(f"<{len(data) // 8}{letter}", data))
    numbers = _unpacked(value["of"], letter) or []
    for at in value["at"]:
        numbers[at] = None
    return numbers
