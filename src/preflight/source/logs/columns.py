"""Reads the steps of many lines of one shape at once: what stands in some columns of one of them stands there in all.

Two lines of one shape have the same characters but for their digits.
So the digits of all are subtracted from, compared and put together as columns of numbers; a number of up to fifteen digits and a
power of ten of up to twenty-two are exact in floating point, so that one multiplication or division rounds as reading the
text would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from preflight.source.logs.times import iso_at, minute_at

if TYPE_CHECKING:
    from preflight.source.logs.shapes import Shape

_NUMBER = re.compile(rb"(0[0,_]*)(?:\.(0*))?(?:[eE]([-+]?)(0+))?")
_STAMP = re.compile(rb"0000[^0]00[^0]00[^0]00:00:00(?:[^0]0{1,9})?")
_EXACT = 1 << 53
_POWERS = 22
_MOST_DIGITS = 18
"""As many fit into 64 bits; numbers beyond ``_EXACT`` are read one by one."""
_SURE = 15
"""So many digits are never beyond it."""
_MOST_EXPONENT = 3
_MINUTE, _WORD = 16, 8
_CHUNK = 1 << 17


class Number(NamedTuple):
    """A number of all lines of a shape.

    Attributes:
        begin: Its first column.
        end: The column behind it.
        digits: The columns of its digits.
        behind: How many of them stand behind the point.
        exponent: The columns of the digits of its power of ten.
        sign: That of the power of ten.
    """

    begin: int
    end: int
    digits: tuple[int, ...]
    behind: int
    exponent: tuple[int, ...]
    sign: int


class Columns(NamedTuple):
    """Where the lines of a shape bear what.

    Attributes:
        shape: The shape.
        key: What they have in common, each digit a nought.
        most: The most that a byte may be above that of ``key``.
        probe: A column at which eight bytes begin that are no digits, and those as a number.
        values: The numbers with their factors.
        names: Their names.
        step: The number of the step.
        stamp: The columns at which the time begins and ends; None where it has none.
        writer: The columns of the digits in the name of the writer.
    """

    shape: Shape
    key: Any
    most: Any
    probe: tuple[int, int]
    values: tuple[tuple[Number, float], ...]
    names: tuple[str, ...]
    step: Number | None
    stamp: tuple[int, int] | None
    writer: tuple[int, ...]


class Told(NamedTuple):
    """What lines of one shape tell, each by its place among them.

    Attributes:
        lines: Its number.
        steps: The number of the step.
        values: The numbers.
        times: When it was written; None where they bear no time.
        writers: The place of the first line of the same writer; None where all of them are of one.
        odd: The lines that have to be read as any other.
    """

    lines: list[int]
    steps: list[int]
    values: list[tuple[float, ...]]
    times: list[float] | None
    writers: list[int] | None
    odd: frozenset[int]


def columns_of(key: bytes, shape: Shape) -> Columns | None:
    """Return where lines of a shape bear what; None where they have to be read one by one."""
    import numpy as np

    probe = _probe(key)
    places = shape.step
    if probe is None or shape.trouble is not None:
        return None
    codes = np.frombuffer(key, np.uint8)
    most = np.where(codes == ord("0"), np.uint8(9), np.uint8(0))
    writer = _digits(key, *shape.writer)
    if len(writer) > _MOST_DIGITS:
        return None
    if places is None:
        return Columns(shape, codes, most, probe, (), (), None, None, writer)
    step = _number(key, *places.step) if places.step is not None else None
    values = [(_number(key, begin, end), factor) for _, begin, end, factor in places.values]
    if (
        step is None
        or step.behind
        or step.exponent
        or len(step.digits) > _MOST_DIGITS - 3
        or len(writer) > _MOST_DIGITS
    ):
        return None
    stamp = None
    if places.stamp is not None:
        begin, end, form = places.stamp
        if form != "iso" or _STAMP.fullmatch(key, begin, end) is None:
            return None
        stamp = (begin, end)
    known = tuple((number, factor) for number, factor in values if number is not None)
    names = tuple(name for name, *_ in places.values)
    return Columns(shape, codes, most, probe, known, names, step, stamp, writer) if len(known) == len(names) else None


def _probe(key: bytes) -> tuple[int, int] | None:
    """Return the middle of the longest part without digits: the words of a step rather than what stands before all lines."""
    part = max(re.finditer(rb"[^0]+", key), key=lambda match: match.end() - match.start(), default=None)
    if part is None or part.end() - part.start() < _WORD:
        return None
    place = (part.start() + part.end() - _WORD) // 2
    return place, int.from_bytes(key[place : place + _WORD], "little")


def _digits(key: bytes, begin: int, end: int) -> tuple[int, ...]:
    return tuple(place for place in range(begin, end) if key[place] == ord("0"))


def _number(key: bytes, begin: int, end: int) -> Number | None:
    match = _NUMBER.fullmatch(key, begin, end)
    if match is None:
        return None
    whole, part, power = (_digits(key, *match.span(group)) for group in (1, 2, 4))
    if len(whole) + len(part) > _MOST_DIGITS or len(power) > _MOST_EXPONENT:
        return None
    return Number(begin, end, whole + part, len(part), power, -1 if match[3] == b"-" else 1)


def matched(columns: Columns, data: bytes, starts: Any) -> tuple[Any, dict[int, Any]]:
    """Return which of the lines that begin at some places are of a shape, and the columns of their digits that are read.

    A few lines are looked at together, so that what is made of them stays in the cache.
    """
    import numpy as np

    width = len(columns.key)
    used = sorted({*_used(columns)})
    # A line as one value, so that it is copied in one piece.
    lines = np.ndarray(len(data) - width + 1, f"V{width}", data, strides=(1,))
    together = max(_CHUNK // width, 1)
    good: list[Any] = [np.zeros(0, np.int64)]
    digits: list[Any] = [np.zeros((len(used), 0), np.uint8)]
    for first in range(0, len(starts), together):
        part = lines[starts[first : first + together]].view(np.uint8).reshape(-1, width)
        part -= columns.key
        own = np.flatnonzero((part <= columns.most).all(axis=1))
        good.append(own + first)
        digits.append(part.T[used] if len(own) == len(part) else part[own].T[used])
    return np.concatenate(good), dict(zip(used, np.concatenate(digits, axis=1), strict=True))


def read(columns: Columns, digits: dict[int, Any], lines: list[int], text: Callable[[int], bytes]) -> Told:
    """Read lines of one shape.

    Args:
        columns: The shape.
        digits: By column: the digit of each line.
        lines: Their numbers.
        text: Gives one of the lines.
    """
    import numpy as np

    odd: set[int] = set()
    if columns.step is None:
        return Told(lines, [], [], None, _writers(np, columns, digits), frozenset())
    values = []
    for number, factor in columns.values:
        found = _floats(np, number, digits, text)
        values.append((found * factor if factor != 1.0 else found).tolist())
    return Told(
        lines,
        _whole(np, columns.step.digits, digits).tolist(),
        list(zip(*values, strict=True)) if values else [()] * len(lines),
        _times(np, columns.stamp, digits, text, odd).tolist() if columns.stamp is not None else None,
        _writers(np, columns, digits),
        frozenset(odd),
    )


def _writers(np: Any, columns: Columns, digits: dict[int, Any]) -> list[int] | None:
    if not columns.writer:
        return None
    _, first, which = np.unique(_whole(np, columns.writer, digits), return_index=True, return_inverse=True)
    places: list[int] = first[which].tolist()
    return places


def _used(columns: Columns) -> Sequence[int]:
    """Return the columns whose digits are read."""
    if columns.step is None:
        return columns.writer
    numbers = [columns.step, *(number for number, _ in columns.values)]
    used = [place for number in numbers for place in (*number.digits, *number.exponent)]
    if columns.stamp is not None:
        used += _digits(columns.key.tobytes(), *columns.stamp)
    return [*used, *columns.writer]


def _whole(np: Any, places: Sequence[int], digits: dict[int, Any]) -> Any:
    """Return the number that some columns of digits are."""
    found = digits[places[0]].astype(np.int64)
    for place in places[1:]:
        found *= 10
        found += digits[place]
    return found


def _floats(np: Any, number: Number, digits: dict[int, Any], text: Callable[[int], bytes]) -> Any:
    whole = _whole(np, number.digits, digits)
    bad = whole > _EXACT if len(number.digits) > _SURE else None
    powers = np.array([float(10**power) for power in range(_POWERS + 1)])
    if number.exponent:
        power = number.sign * _whole(np, number.exponent, digits) - number.behind
        size = np.minimum(abs(power), _POWERS)
        far = abs(power) > _POWERS
        bad = far if bad is None else bad | far
        found = np.where(power < 0, whole / powers[size], whole * powers[size])
    else:
        found = whole / powers[number.behind] if number.behind else whole.astype(np.float64)
    for place in np.flatnonzero(bad).tolist() if bad is not None else ():
        found[place] = float(text(place)[number.begin : number.end].replace(b",", b""))
    return found


def _times(np: Any, stamp: tuple[int, int], digits: dict[int, Any], text: Callable[[int], bytes], odd: set[int]) -> Any:
    """Return the times of lines, minute by minute as ``iso_at`` does; what is none is ``odd``."""
    begin, end = stamp
    places = [place for place in digits if begin <= place < begin + _MINUTE]
    minutes = _whole(np, places, digits)
    second = _whole(np, (begin + _MINUTE + 1, begin + _MINUTE + 2), digits)
    part: Any = 0
    if end > begin + _MINUTE + 4:
        behind = range(begin + _MINUTE + 4, end)
        part = _whole(np, behind, digits) / 10 ** len(behind)
    found = np.empty(len(minutes))
    changes = [0, *(np.flatnonzero(np.diff(minutes)) + 1).tolist(), len(minutes)]
    for first, last in pairwise(changes):
        line = text(first).decode()
        began = minute_at(line, begin)
        told = None if began is not None else iso_at(line, begin, end)
        began = minute_at(line, begin)
        if began is None:  # no such date, or a first line of no such second
            odd.update(range(first, last))
            continue
        here = slice(first, last)
        found[here] = (began + second[here]) + (part[here] if end > begin + _MINUTE + 4 else 0)
        if told is not None:
            found[first] = told.seconds
    odd.update(np.flatnonzero(second > 60).tolist())
    return found
