"""Lines with which a program begins, told again further down: it was started anew, and its output appended.

Output that waited in a buffer comes out behind a traceback as well, but only once: what stands before it and again behind it
was said by two starts. A time before a line is another one in each start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

_FIRST = 80
"""Among so many lines at the head of a file those are sought that are told once in a start."""
_MOST = 8
_FEWEST = 3
"""So many of them have to be told again, in their order."""
_APART = 200
"""Within so many lines."""
_TELLING = re.compile(rb"[A-Za-z][\w .,()/-]{2,60}[:=] ?\S.{0,120}")
"""Settings and what a program finds as it begins; no bar, no table, no frame."""
_TIME = re.compile(rb"\[?\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?(?=[\s,:|-])")
_LOGGED = re.compile(rb"[\s,:|\[(-]+(?:[\w.<>]+[\s,:|\])(-]+){1,6}[A-Z][a-z]+ [A-Za-z][^|\r]{2,250}")
"""What a logger says behind the time: its name and the level, and a sentence."""


class BegunAgain:
    """Looks for the head of a file in the rest of it."""

    def __init__(self, head: bytes) -> None:
        """Keep the head: of most files nothing else is wanted."""
        self._head = head
        self._told: dict[bytes, int] | None = None
        self._last: dict[bytes, int] = {}

    def look(self, data: bytes, own: int, first_line: int) -> None:
        """Look through the bytes of a block that are its own; ``first_line`` is the number of its first line."""
        if self._told is None:
            self._told = _told_once(self._head)
        for line, number in self._told.items():
            place = _told_last(line, data, own)
            if place is not None:
                found = first_line + data.count(b"\n", 0, place)
                if found > number:
                    self._last[line] = found

    @property
    def line(self) -> int | None:
        """The line with which the last start begins that repeats the head; None where none does."""
        places = [self._last[line] for line in self._told or () if line in self._last]
        # A start between, of other settings, may have been the last that told one of them.
        for many in range(len(places), _FEWEST - 1, -1):
            starts = [one for one in combinations(places, many) if _of_one_start(one)]
            if starts:
                return max(starts)[0]
        return None


def _of_one_start(places: Sequence[int]) -> bool:
    """Whether lines stand in the order of the head, and near each other."""
    return list(places) == sorted(places) and places[-1] - places[0] <= _APART


def _told_last(line: bytes, data: bytes, own: int) -> int | None:
    """Return where a line begins that is told for the last time, whatever its time is; None where it is not."""
    end = own
    while (place := data.rfind(line + b"\n", 0, end)) >= 0:
        begins = data.rfind(b"\n", 0, place) + 1
        timed = _TIME.match(data, begins)
        if begins and (begins == place or (timed is not None and timed.end() == place)):
            return begins
        end = place + len(line)
    return None


def _told_once(head: bytes) -> dict[bytes, int]:
    """Return the lines that stand once in a start before anything was raised, without their times, with their numbers."""
    lines = head.partition(b"\nTraceback (most recent call last)")[0].split(b"\n")
    lines = [line[timed.end() :] if (timed := _TIME.match(line)) else line for line in lines]
    again = (place for place in range(1, len(lines) - 1) if lines[place : place + 2] == lines[:2])
    first = next(again, None) if lines[0].strip() else None
    lines = lines[:first]
    found: dict[bytes, int] = {}
    for number, line in enumerate(lines[:_FIRST], 1):
        if len(found) < _MOST and (_TELLING.fullmatch(line) or _LOGGED.fullmatch(line)) and lines.count(line) == 1:
            found[line] = number
    return found
