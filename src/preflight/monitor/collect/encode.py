"""Rows to blocks: columns as JSON, compressed, with a length and a checksum before them."""

from __future__ import annotations

import binascii
import enum
import json
import struct
import sys
import zlib
from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import sub
from typing import Any

from .columns import MAGIC, TABLES

Rows = Iterable[tuple[str, tuple[Any, ...]]]

LONGEST_TEXT = 300
"""Characters that are kept of a value which JSON does not know."""
DEEPEST = 12
LONGEST_LIST = 10_000
_FEW = frozenset({str, type(None)})


def _plain(value: object) -> object:
    """Say of a value that JSON does not know what can be said without running the program's code or the device's.

    The text of a tensor would wait for the device, so that only values known to be small are written as text.
    """
    kind = type(value)
    if isinstance(value, (set, frozenset)):
        return sorted((_safe(item) for item in list(value)[:LONGEST_LIST]), key=repr)
    if isinstance(value, enum.Enum):
        return f"{kind.__qualname__}.{value._name_}"[:LONGEST_TEXT]
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind.__module__ == "numpy" and getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return _safe(value.item())
    if kind in (complex, range) or name.startswith(_TOLD):
        return str(value)[:LONGEST_TEXT]
    if isinstance(value, (bytes, bytearray)):
        return repr(value[:LONGEST_TEXT])[:LONGEST_TEXT]
    if isinstance(value, type) or callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', kind.__qualname__)}"[:LONGEST_TEXT]
    return f"<{name}>"[:LONGEST_TEXT]


_TOLD = (
    *("torch.dtype", "torch.device", "torch.layout", "torch.memory_format"),
    *("datetime.", "decimal.", "fractions.", "pathlib.", "uuid."),
)

_dump = json.JSONEncoder(separators=(",", ":"), default=_plain, check_circular=False).encode


def _safe(value: Any, depth: int = 0) -> Any:
    """Return a copy that JSON surely takes, for what it did not take as it was."""
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() < 10_000 else f"<integer of {value.bit_length()} bits>"
    if isinstance(value, str):
        return str(value)
    if depth >= DEEPEST:
        return "..."
    try:
        if isinstance(value, dict):
            items = list(value.items())[:LONGEST_LIST]
            return {
                key if isinstance(key, str) else _dump([_safe(key)])[1:-1]: _safe(item, depth + 1)
                for key, item in items
            }
        if isinstance(value, (list, tuple)):
            return [_safe(item, depth + 1) for item in list(value)[:LONGEST_LIST]]
        return _safe(_plain(value), depth + 1)
    except Exception:
        return f"<{type(value).__qualname__}>"


def _dump_safely(values: Sequence[Any]) -> str:
    """Return the JSON of a list, whatever is in it."""
    try:
        return _dump(values)
    except Exception:
        return _dump([_safe(value) for value in values])


def _column(values: tuple[Any, ...], declared: str) -> str:
    """Return the JSON of a column, in the shortest of its forms.

    A list holds the values.
    ``{"all": value, "n": count}`` is the same value ``count`` times.
    ``{"words": [...], "at": [...]}`` holds the different values, and which one stands in each row.
    ``{"ints": [...]}`` and ``{"floats": [...]}`` hold lists of numbers as their bytes in base 64, each of eight bytes,
    the lowest first; ``{"at": [...], "of": ...}`` is one in which None stands at some places.
    ``{"sum": [...]}`` holds the first value and the differences to the value before.
    """
    types = set(map(type, values))
    if declared == "float" and int in types:
        values = tuple([float(value) if type(value) is int and abs(value) < 1 << 53 else value for value in values])
        types = set(map(type, values))
    count = len(values)
    if count > 1 and types <= _SIMPLE and len(types) == 1 and values.count(values[0]) == count:
        return f'{{"all":{_dump_safely(values[:1])[1:-1]},"n":{count}}}'
    if declared == "count" and types == {int}:
        return f'{{"sum":{_dump_safely([values[0], *map(sub, values[1:], values)])}}}'
    if count > 4 and declared == "word" and types <= _FEW:
        return _words(values) or _dump_safely(values)
    if count > 4 and declared == "shape" and all(issubclass(type_, _LISTS) for type_ in types):
        return _words(tuple([value if value is None else tuple(value) for value in values])) or _dump_safely(values)
    if declared in PACKED and types <= _LIST_OR_NONE:
        return _packed(values, declared) or _dump_safely(values)
    return _dump_safely(values)


def _packed(values: tuple[Any, ...], declared: str) -> str | None:
    """Return the JSON of lists of numbers by their bytes; None where one holds another thing."""
    letter, type_ = PACKED[declared]
    with_holes = {type_, type(None)}
    packed: list[Any] = []
    for value in values:
        if value is None:
            packed.append(None)
            continue
        types = set(map(type, value))
        holes = [at for at, item in enumerate(value) if item is None] if type(None) in types else None
        if not types <= with_holes:
            return None
        try:
            numbers = struct.pack(
                f"<{len(value)}{letter}", *(value if holes is None else [0 if item is None else item for item in value])
            )
        except struct.error:  # an integer of more than 64 bits
            return None
        text = binascii.b2a_base64(numbers, newline=False).decode("ascii")
        packed.append(text if holes is None else {"at": holes, "of": text})
    return _dump({declared: packed})


def _words(values: tuple[Any, ...]) -> str | None:
    """Return the JSON of values that repeat: the different ones, and which one stands where."""
    try:
        words = dict.fromkeys(values)
    except TypeError:
        return None
    if 2 * len(words) > len(values):
        return None
    index = dict(zip(words, range(len(words)), strict=True))
    return f'{{"words":{_dump_safely(list(words))},"at":{_dump(list(map(index.__getitem__, values)))}}}'


PACKED = {"ints": ("q", int), "floats": ("d", float)}
"""How lists of numbers are packed: the letter of the struct, and the type that all of them have."""
_LIST_OR_NONE = frozenset({list, tuple, type(None)})
_LISTS = (list, tuple, type(None))
_SIMPLE = frozenset({str, int, bool, type(None)})
"""Types of which equal values are written alike."""


def _named_column(name: str, declared: str, values: tuple[Any, ...]) -> str:
    return f'"{name}":{_column(values, declared)}'


def _table(kind: str, rows: list[tuple[Any, ...]]) -> str:
    """Return the JSON of the columns of one kind."""
    columns = TABLES[kind]
    if set(map(len, rows)) != {len(columns)}:
        rows = [(*row, *repeat(None, len(columns)))[: len(columns)] for row in rows]
    texts = map(_named_column, columns, columns.values(), zip(*rows, strict=True))
    return f'"{kind}":{{{",".join(texts)}}}'


def payload(rows: Rows) -> bytes:
    """Return the JSON of some rows: ``{"tables": {kind: {column: values}}}``.

    Each column is turned into text by a call of its own, so that other threads need not wait for all of them.
    Rows of a kind that is not declared are left out.
    """
    kinds: dict[str, list[tuple[Any, ...]]] = {}
    for kind, row in rows:
        if kind in kinds:
            kinds[kind].append(row)
        elif kind in TABLES:
            kinds[sys.intern(kind)] = [row]
    return f'{{"tables":{{{",".join(_table(kind, table) for kind, table in kinds.items())}}}}}'.encode("ascii")


def block(content: bytes) -> bytes:
    """Return the block of a payload that is not yet compressed."""
    packed = zlib.compress(content, 1)
    return MAGIC + struct.pack("<II", len(packed), zlib.crc32(packed)) + packed
