"""Lines that differ in their digits alone, each digit at its place: once one was taken apart, the others are read at those places.

A program prints its lines in few forms, and pads its numbers: two lines that are equal when every digit is made a nought mean
the same, and their numbers, their time and their writer stand at the same places.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from preflight.source.logs import steps
from preflight.source.logs.neighbours import METRICS_BELOW, bar_before
from preflight.source.logs.pages import Line, Page, merged
from preflight.source.logs.prefixes import LineStyle, head_of
from preflight.source.logs.residue import Found
from preflight.source.logs.rules import STEP, TROUBLE
from preflight.source.logs.times import Stamp, iso_at, may_be_time, seconds_of, stamp_at
from preflight.source.logs.witness import Witness
from preflight.vocabulary.log import StepLine, Who

LONGEST = 1500
"""A longer line is seldom the same twice."""
MOST = 20_000
_NOUGHTS = bytes.maketrans(b"123456789", b"000000000")
_CLOSES = re.compile(r"[\])|:>]")
_NOBODY = Who()
_MOST_WRITERS = 100_000


class Shape(NamedTuple):
    """What all lines of a shape have in common.

    Attributes:
        kind: What its literals make it a candidate for.
        taken: The signatures that take it.
        trouble: What gathers it as trouble that nothing explains; None where it is none.
        step: Where the numbers of its step are; None where it tells of no step.
        writer: Where the name of its writer stands; ``(0, 0)``: it has none.
    """

    kind: int
    taken: tuple[int, ...]
    trouble: Found | None
    step: Places | None
    writer: tuple[int, int]


class Places(NamedTuple):
    """Where the numbers of a step are in a line: (name, first character, the one after the last, factor)."""

    values: tuple[tuple[str, int, int, float], ...]
    fixed: dict[str, float]
    step: tuple[int, int] | None
    stamp: tuple[int, int, str] | None
    commas: bool


def key_of(data: bytes, start: int, end: int) -> bytes | None:
    """Return what lines of the same shape have in common; None for a line that is too long to have one."""
    return data[start:end].translate(_NOUGHTS) if end - start <= LONGEST else None


class Shapes:
    """The shapes of the lines of one file.

    Attributes:
        known: By what ``key_of`` gives; None for one whose lines have to be read one by one.
        everywhere: Those that mean the same in every file whose lines bear such labels.
        witness: Says who wrote the lines, and when.
    """

    def __init__(
        self, words: Sequence[bytes], style: LineStyle, witness: Witness, everywhere: dict[bytes, Shape]
    ) -> None:
        """Know none of this file; ``words`` are the literals, of which some have digits of their own."""
        self.known: dict[bytes, Shape | None] = {}
        self.everywhere = everywhere
        self._once: set[bytes] = set()
        self._numbered = _numbered(tuple(words))
        self._style = style
        self.witness = witness
        self._writers: dict[bytes, Who] = {}

    def learn(
        self,
        page: Page,
        key: bytes | None,
        line: Line,
        kind: int,
        taken: tuple[int, ...] = (),
        trouble: Found | None = None,
        *,
        alone: bool = True,
    ) -> None:
        """Keep what was found out of a line, for those of its shape; the first of them is only remembered.

        ``alone``: it was found out of this line alone, and of nothing that was read of its file before.
        """
        if key is None or key in self.known:
            return
        if key not in self._once:
            if len(self._once) >= MOST:
                self._once.clear()
                self.known.clear()
            self._once.add(key)
            return
        shape = self.known[key] = self._learned(page, key, line, kind, taken, trouble)
        if alone and shape is not None and trouble is None and (taken or not kind & TROUBLE):
            if len(self.everywhere) >= MOST:
                self.everywhere.clear()
            self.everywhere[key] = shape

    def _learned(
        self, page: Page, key: bytes, line: Line, kind: int, taken: tuple[int, ...], trouble: Found | None
    ) -> Shape | None:
        raw = page.data[line.start : line.end]
        if not line.text.isascii() or line.text.encode() != raw or any(word in b"\n" + key for word in self._numbered):
            return None
        writer = self._writer(line)
        step: Places | None = None
        if kind & STEP and writer is not None:
            found = _places(line)
            if isinstance(found, bool):
                return None
            step = found
        return None if writer is None else Shape(kind, taken, trouble, step, writer)

    def _writer(self, line: Line) -> tuple[int, int] | None:
        """Return where the name of the writer stands: a part of the line that says the same by itself, and no time."""
        head = line.head
        if head.inner is not None or may_be_time(line.text, head.end):  # with other digits the head were another
            return None
        if head.who == _NOBODY:
            return (0, 0)
        begins = [0] if head.stamp is None else [0, head.stamp.end]
        for begin in begins:
            for match in _CLOSES.finditer(line.text, begin, head.end):
                end = match.end()
                found = head_of(line.text[begin:end], self._style if begin == 0 else "")
                if found.stamp is not None:
                    break
                if found.who == head.who:
                    return begin, end
        return None

    def who(self, page: Page, start: int, shape: Shape) -> Who:
        """Return who wrote a line of a known shape."""
        begin, end = shape.writer
        if end == 0:
            return self.witness.file.who
        name = page.data[start + begin : start + end]
        who = self._writers.get(name)
        if who is None:
            if len(self._writers) >= _MOST_WRITERS:
                self._writers.clear()
            head = head_of(name.decode(), self._style if begin == 0 else "")
            who = self._writers[name] = merged(head.who, self.witness.file.who)
        return who

    def step(self, page: Page, start: int, end: int, shape: Shape, places: Places) -> StepLine | None:
        """Return the step of a line of a known shape; None where it has to be read as any other."""
        data = page.data
        time: float | None = None
        if places.stamp is not None:
            begin, stop, form = places.stamp
            known = seconds_of(data[start + begin : start + stop].decode()) if form == "iso" else None
            if known is not None:
                time = self.witness.clock.at_seconds(known)
            else:
                stamp = _stamp(data[start:end].decode(), begin, stop, form)
                if stamp is None:
                    return None
                time = self.witness.clock.at(stamp)
        number = None
        try:
            if places.commas:
                values = {
                    name: float(data[start + a : start + b].replace(b",", b"")) * factor
                    for name, a, b, factor in places.values
                }
                if places.step is not None:
                    number = int(float(data[start + places.step[0] : start + places.step[1]].replace(b",", b"")))
            else:
                values = {name: float(data[start + a : start + b]) * factor for name, a, b, factor in places.values}
                if places.step is not None:
                    number = int(float(data[start + places.step[0] : start + places.step[1]]))
        except (ValueError, OverflowError):  # a number that is none, or that is without end
            return None
        if places.fixed:
            values.update(places.fixed)
        if places.step is None:
            number = bar_before(page.data, start)
        return StepLine(
            file=self.witness.file.index,
            line=page.number(start),
            step=number,
            values=values,
            who=self.who(page, start, shape),
            time=time,
        )


@lru_cache(maxsize=4)
def _numbered(words: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return what the literals with digits of their own look like when these are noughts."""
    digits = re.compile(rb"[0-9]")
    return tuple({word.translate(_NOUGHTS) for word in words if digits.search(word)})


def _stamp(text: str, begin: int, end: int, form: str) -> Stamp | None:
    if form == "iso":
        return iso_at(text, begin, end)
    stamp = stamp_at(text, begin)
    return stamp if stamp is not None and stamp.form == form and stamp.end == end else None


def _places(line: Line) -> Places | bool | None:
    """Return where the numbers of a step are; None: it is no step; False: that cannot be said for all lines of its shape."""
    text = line.text[line.head.end :]
    if METRICS_BELOW.match(text) or "%|" in text or "it [" in text:
        return False
    form = steps.form_of(text)
    if form is None:
        return None
    stamp = line.head.stamp
    spans = steps.numbers_of(text)
    offset = line.head.end
    values = tuple((name, offset + spans[at][0], offset + spans[at][1], factor) for name, at, factor in form.values)
    step = spans[form.step] if form.step is not None else None
    when = None
    if stamp is not None:
        when = (stamp.start, stamp.end, "iso" if stamp.form == "iso" and not stamp.zoned else stamp.form)
        if stamp.zoned and stamp.form == "iso" or _stamp(line.text, *when) is None:
            return False
    return Places(
        values,
        form.fixed,
        None if step is None else (offset + step[0], offset + step[1]),
        when,
        "," in "".join(line.text[a:b] for _, a, b, _ in values)
        or (step is not None and "," in text[step[0] : step[1]]),
    )
