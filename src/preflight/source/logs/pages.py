"""One block of a file as lines: where they begin and end, what they say, who wrote them, when; asked only of lines that matter."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from preflight.source.logs.blocks import Block
from preflight.source.logs.known_heads import KnownHeads
from preflight.source.logs.prefixes import Head, LineStyle, plain
from preflight.source.logs.times import Stamp
from preflight.source.logs.tracebacks import HEADER
from preflight.source.logs.wrapped import unwrapped
from preflight.vocabulary.log import Who

LONGEST = 1 << 16
"""Bytes after which a line is cut: no program writes longer ones to be read."""
_BEFORE = 300
"""Lines looked at, before and after one without a time, for one that has it."""
_PATIENCE = 6
_IMPATIENT = 4
_NEAR = 1 << 16
_FARTHEST = 20_000
"""Lines that are gone through for those of one writer."""
_SHORT = 1 << 9
_PIECE = 1 << 10
_LARGE = 1 << 18
_FAR = 1 << 11
"""Bytes in which the breaks of lines are counted one by one; farther than that they are counted for all pieces of a block."""
_LABEL = re.compile(rb"\[(?:rank|default)\d+\]:(?! ?\[(?:rank|default))")
_DIGITS = re.compile(r"\d+")
_HEADERS = HEADER.encode() + b":\n"
_MANY_HEADERS = _HEADERS * 64


class Line(NamedTuple):
    """A line that matters.

    Attributes:
        start: Where it begins in the block.
        end: Where it ends, its break not counted.
        number: Its number in the file.
        text: What it says, without colours.
        head: What stands before its text.
    """

    start: int
    end: int
    number: int
    text: str
    head: Head


class Page:
    """A block, its lines and their times."""

    def __init__(
        self,
        block: Block,
        style: LineStyle,
        stamp: Stamp | None,
        labelled: bool = True,
        known: KnownHeads | None = None,
    ) -> None:
        """Look at a block; ``stamp`` is the last time before it, ``labelled``: its lines may say who wrote them."""
        self.data = block.data
        self.own = block.own
        self.offset = block.offset
        self.style = style
        self.labelled = labelled
        self.walked = 0
        self._timeless = 0
        self.returns = b"\r" in self.data
        self.first_line = block.line
        self._ends: Any = None
        self._last_counted = (0, block.line)
        self._breaks: list[int] | None = None
        self._known = known or KnownHeads(style)
        self._heads: dict[int, tuple[str, Head, int]] = {}
        self._stamp = stamp
        self._labels: dict[bytes, Who] = {}

    @property
    def ends(self) -> Any:
        """Where the lines end, as an array; the last one is not among them where nothing breaks it."""
        if self._ends is None:
            import numpy as np

            self._ends = np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord("\n"))
        return self._ends

    def bounds(self, place: int) -> tuple[int, int]:
        """Return where the line that holds a byte begins and ends; a carriage return breaks a line as well."""
        data = self.data
        low = place - LONGEST if place > LONGEST else 0
        if self.returns and (start := data.rfind(b"\r", max(place - _SHORT, 0), place)) >= 0:
            return max(start, data.rfind(b"\n", start, place)) + 1, self._end(place)
        start = data.rfind(b"\n", low, place)
        if not self.returns and start >= 0:
            end = data.find(b"\n", place, place + LONGEST)
            if end >= 0:
                return start + 1, end
        if self.returns and place - start > _SHORT:
            start = max(start, data.rfind(b"\r", max(start, low), place))
        return start + 1 if start >= 0 else low, self._end(place)

    def _end(self, place: int) -> int:
        high = min(place + LONGEST, len(self.data))
        if not self.returns:
            end = self.data.find(b"\n", place, high)
            return high if end < 0 else end
        # A file of bars has no other breaks, and a file with a bar or two has few of these: what is near is enough for both.
        for far in (min(place + _SHORT, high), high):
            end = self.data.find(b"\n", place, far)
            other = self.data.find(b"\r", place, end if end >= 0 else far)
            if other >= 0 or end >= 0:
                return other if other >= 0 else end
        return high

    def number(self, start: int) -> int:
        """Return the number of the line that begins at a byte; cheap where it is near one that was asked before."""
        place, number = self._last_counted
        if start < place or (start - place > _FAR and len(self.data) > _LARGE):
            if self._breaks is None:
                self._breaks = _breaks(self.data) if len(self.data) > _LARGE else [0]
            piece = min(start // _PIECE, len(self._breaks) - 1)
            place, number = piece * _PIECE, self.first_line + self._breaks[piece]
        number += self.data.count(b"\n", place, start)
        self._last_counted = (start, number)
        return number

    def line(self, start: int, end: int) -> Line:
        """Return the line at these bytes."""
        text, head, _ = self._headed(start, end)
        return Line(start, end, self.number(start), text, head)

    def _headed(self, start: int, end: int) -> tuple[str, Head, int]:
        found = self._heads.get(start)
        if found is None:
            text = unwrapped(plain(decoded(self.data[start:end])))
            found = self._heads[start] = (text, self._known.head_of(text), end)
        return found

    def repeated(self, start: int, end: int) -> bool:
        """Whether the next line of the same writer is the same, byte for byte."""
        line = self.data[start:end]
        label = _LABEL.match(line)
        after = self.data.find(b"\n" + label[0], end) if label else end
        return after >= 0 and self.data.startswith(b"\n" + line + b"\n", after)

    def last_of_run(self, start: int, end: int) -> tuple[int, int]:
        """Return the last of the lines that are the beginning of a traceback and nothing else, from one on."""
        if not self.data.startswith(_HEADERS, start) or start and self.data[start - 1] != 10:
            return start, end
        while self.data.startswith(_MANY_HEADERS, end + 1):
            end += len(_MANY_HEADERS)
        while self.data.startswith(_HEADERS, end + 1):
            end += len(_HEADERS)
        return end - len(_HEADERS) + 1, end

    def below(self, line: Line, most: int) -> Iterator[str]:
        """Yield the lines of the same writer that follow, without what stands before each of them."""
        return (text for _, text in self.below_numbered(line, most, line.head.end))

    def below_numbered(self, line: Line, most: int, column: int) -> Iterator[tuple[tuple[int, int], str]]:
        """Yield the lines of the same writer that follow with where they begin and end; ``column``: where its text begins."""
        prefix = line.text[:column]
        who = line.head.who
        shape = _shape(prefix) if prefix.strip() else None
        label = _LABEL.match(self.data, line.start, line.end)
        needle = b"\n" + label[0] if label else None
        place = line.end
        given = 0
        for _ in range(min(most * 64, _FARTHEST)):
            self.walked += 1
            start = place + (2 if self.data.startswith(b"\r\n", place) else 1)
            if needle is not None:  # the label tells the writer: the lines of others are passed over at once
                start = self.data.find(needle, start - 1) + 1
            if start >= len(self.data) or given >= most or (needle is not None and not start):
                return
            place = self._end(start)
            text, head, _ = self._headed(start, place)
            if head.who != who and not _said_by_none(head) and not _continues(head.who, who):
                continue
            given += 1
            yield (start, place), _stripped(text, prefix, shape)

    def quick_who(self, start: int, end: int, file: Who) -> Who:
        """Return who wrote a line, by its label alone where it has a common one."""
        match = _LABEL.match(self.data, start, end)
        if match is None:
            return merged(self._headed(start, end)[1].who, file) if self.labelled else file
        found = self._labels.get(match[0])
        if found is None:
            found = self._labels[match[0]] = merged(self._headed(start, end)[1].who, file)
        return found

    def stamp_before(self, start: int) -> Stamp | None:
        """Return the nearest time that stands before a line."""
        low = max(start - _NEAR, 0)
        for _ in range(self._reach()):
            if start <= low:
                break
            begin, end = self.bounds(start - 1)
            stamp = self._headed(begin, end)[1].stamp
            if stamp is not None:
                self._timeless = 0
                return stamp
            start = begin
        self._timeless += 1
        return self._stamp if start <= 0 or low == 0 else None

    def stamp_after(self, end: int) -> Stamp | None:
        """Return the nearest time that stands after a line."""
        high = min(end + _NEAR, len(self.data))
        for _ in range(self._reach()):
            start = end + 1
            if start >= high:
                break
            end = self._end(start)
            stamp = self._headed(start, end)[1].stamp
            if stamp is not None:
                self._timeless = 0
                return stamp
        self._timeless += 1
        return None

    def _reach(self) -> int:
        """How many lines are looked at for a time: where there was none again and again, only a few."""
        return _BEFORE if self._timeless < _PATIENCE else _IMPATIENT


def _breaks(data: bytes) -> list[int]:
    """Return how many lines end before each piece of a block."""
    import numpy as np

    pieces = len(data) // _PIECE
    ends = np.frombuffer(data, np.uint8, pieces * _PIECE) == ord("\n")
    # Eight bytes at once: none of the eight sums of a piece of 1,024 bytes is more than 128.
    sums = np.add.reduce(ends.view(np.uint64).reshape(pieces, -1), axis=1) if pieces else np.zeros(0, np.uint64)
    counts = sums.view(np.uint8).reshape(pieces, 8).sum(axis=1, dtype=np.int64)
    return [0, *np.cumsum(counts).tolist()]


def merged(own: Who, file: Who) -> Who:
    """Return who wrote a line: what it says itself before what its file says."""
    if own.rank is None and own.local_rank is None and own.node is None and own.pid is None:
        return file
    rank, local = own.rank, own.local_rank
    if rank is None and local in (None, file.local_rank):
        rank = file.rank
    if local is None and rank in (None, file.rank) or (own.rank is not None and local is None and file.rank is None):
        local = file.local_rank
    return Who(rank, own.node or file.node, local, file.attempt, own.pid if own.pid is not None else file.pid)


def decoded(data: bytes) -> str:
    """Return the text of bytes: UTF-8, and where a byte is none of that, Latin-1, in which nothing is lost."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "preflight.latin-1")


def _as_latin_1(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error("preflight.latin-1", _as_latin_1)


def _continues(who: Who, other: Who) -> bool:
    """Whether two lines are of one rank, of which one tells more than the other (a process, a node)."""
    return who.rank is not None and who.rank == other.rank and who.node in (None, other.node)


def _said_by_none(head: Head) -> bool:
    who = head.who
    return who.rank is None and who.local_rank is None and who.node is None and who.pid is None


def _shape(prefix: str) -> re.Pattern[str]:
    """A prefix in which only the numbers may be others: the time goes on, and an identity is compared apart."""
    return re.compile(r"\d+".join(re.escape(part) for part in _DIGITS.split(prefix)))


def _stripped(text: str, prefix: str, shape: re.Pattern[str] | None) -> str:
    if shape is None:
        return text
    if text.startswith(prefix):
        return text[len(prefix) :]
    match = shape.match(text)
    if match:
        return text[match.end() :]
    bare = prefix.rstrip()
    return text[len(bare) :] if text.startswith(bare) else text
