"""Lines with which a program begins, told again further down: it was started anew, and its output appended.

Output that waited in a buffer comes out behind a traceback as well, but only once: what stands before it and again behind it
was said by two starts.
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
            place = data.rfind(b"\n" + line + b"\n", 0, own)
            if place >= 0:
                found = first_line + data.count(b"\n", 0, place + 1)
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


def _told_once(head: bytes) -> dict[bytes, int]:
    """Return the lines that stand once in a head before anything was raised, with their numbers."""
    lines = head.partition(b"\nTraceback (most recent call last)")[0].split(b"\n")
    found: dict[bytes, int] = {}
    for number, line in enumerate(lines[:_FIRST], 1):
        if len(found) < _MOST and _TELLING.fullmatch(line) and lines.count(line) == 1:
            found[line] = number
    return found
