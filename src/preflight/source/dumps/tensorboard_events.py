"""TensorBoard event files, read without TensorBoard: records of length, check sum and a protocol buffer."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from preflight.source.dumps.metric_names import normal
from preflight.source.dumps.part import Part
from preflight.vocabulary.log import LogFile, LogKind, StepLine

KIND: LogKind = "metrics"
_VERSION = b"brain.Event:"
_FLOAT, _DOUBLE = 1, 2


def looks_like(name: str, head: bytes) -> bool:
    """By its name, or by the version that the first record holds."""
    return "tfevents" in name.replace("\\", "/").rpartition("/")[2] or _VERSION in head[:64]


def read(content: bytes, file: LogFile) -> Part:
    """Read the scalars, those of one step together; other kinds of data are passed over."""
    rows: dict[int, tuple[float, dict[str, float]]] = {}
    count = 0
    problem = None
    first = last = None
    try:
        for record in _records(content):
            count += 1
            time, step, scalars = _event(record)
            if time:
                first, last = time if first is None else min(first, time), time if last is None else max(last, time)
            if scalars:
                known = rows.setdefault(step, (time, {}))[1]
                for tag, value in scalars:
                    name, factor = normal(tag)
                    known[tag if name in known else name] = value * factor
    except (ValueError, struct.error) as error:
        problem = f"cut off or broken after {count} records: {error}"
    steps = tuple(
        StepLine(file=file.index, line=number, step=step, values=values, who=file.who, time=time or None)
        for number, (step, (time, values)) in enumerate(rows.items(), 1)
    )
    return Part(lines=count, steps=steps, first_time=first, last_time=last, problem=problem)


def _records(content: bytes) -> Iterator[bytes]:
    """The records; the last one may still be on its way."""
    at = 0
    while at + 12 <= len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        if length > len(content) - at - 16:
            if length > 1 << 31:
                raise ValueError("a length that cannot be")
            return
        yield content[at + 12 : at + 12 + length]
        at += 16 + length


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes | int]]:
    """Number, wire type and content of each field of a protocol buffer."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        value: bytes | int
        if wire == 0:
            value, at = _varint(data, at)
        else:
            if wire == 2:
                size, at = _varint(data, at)
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
            else:
                raise ValueError(f"wire type {wire}")
            if at + size > len(data):
                raise ValueError("a field that ends after its record")
            value, at = data[at : at + size], at + size
        yield key >> 3, wire, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("a number that does not end")


def _event(data: bytes) -> tuple[float, int, list[tuple[str, float]]]:
    time, step = 0.0, 0
    scalars: list[tuple[str, float]] = []
    for number, _, value in _fields(data):
        if number == 1 and isinstance(value, bytes) and len(value) == 8:
            (time,) = struct.unpack("<d", value)
        elif number == 2 and isinstance(value, int):
            step = value - (1 << 64) if value >> 63 else value
        elif number == 5 and isinstance(value, bytes):
            for inner, _, summary in _fields(value):
                scalar = _scalar(summary) if inner == 1 and isinstance(summary, bytes) else None
                if scalar is not None:
                    scalars.append(scalar)
    return time, step, scalars


def _scalar(data: bytes) -> tuple[str, float] | None:
    """Tag and number of one value of a summary: a plain number, or a tensor of one number as newer writers do it."""
    tag, found = "", None
    for number, wire, value in _fields(data):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            tag = value.decode("utf-8", "replace")
        elif number == 2 and wire == 5:
            (found,) = struct.unpack("<f", value)
        elif number == 8:
            found = _tensor(value)
    return None if found is None or not tag else (tag, float(found))


def _tensor(data: bytes) -> float | None:
    """The number in a tensor that holds a single one."""
    kind, count, content = 0, 1, b""
    for number, _, value in _fields(data):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 2:
            count = _elements(value)
        elif number in (4, 5, 6) and isinstance(value, bytes):
            content = value
    if count != 1:
        return None
    if kind == _FLOAT and len(content) == 4:
        return float(struct.unpack("<f", content)[0])
    if kind == _DOUBLE and len(content) == 8:
        return float(struct.unpack("<d", content)[0])
    return None


def _elements(shape: bytes | int) -> int:
    count = 1
    for number, _, dimension in _fields(shape) if isinstance(shape, bytes) else ():
        if number == 2 and isinstance(dimension, bytes):
            for inner, _, size in _fields(dimension):
                count *= size if inner == 1 and isinstance(size, int) else 1
    return count
