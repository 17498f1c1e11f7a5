"""How full the GPU was from the first allocation to the last, and of what: every move in a few bytes."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

MOST = 160
"""Points that are told of a run."""


class Course:
    """Every block that was taken or given back, in order.

    What a block is for may only be known after it was taken: it is written down when the block goes.
    """

    def __init__(self) -> None:
        self._sizes = array("q")
        self._kinds: dict[str, int] = {}
        self._kind_of = array("h")
        self._moves = array("q")
        self._reserved = array("q")
        self._spans: list[tuple[int, int, str]] = []

    def taken(self, size: int, reserved: int, phase: str, step: int) -> None:
        """Write down a block; blocks count from 0 in the order in which they are taken."""
        if not self._spans or self._spans[-1][1:] != (step, phase):
            self._spans.append((len(self._moves), step, phase))
        self._moves.append(len(self._sizes) + 1)
        self._reserved.append(reserved)
        self._sizes.append(size)
        self._kind_of.append(-1)

    def gone(self, number: int, category: str) -> None:
        """Write down that a block was given back, and what it was for."""
        self._kind_of[number] = self._kinds.setdefault(category, len(self._kinds))
        self._moves.append(-number - 1)
        self._reserved.append(self._reserved[-1])

    def points(self, live: dict[int, str]) -> list[dict[str, Any]]:
        """Return the highest instant of each of at most ``MOST`` pieces of the run, in order.

        Args:
            live: What the blocks that are still there are for, by number.
        """
        for number, category in live.items():
            self._kind_of[number] = self._kinds.setdefault(category, len(self._kinds))
        names = list(self._kinds)
        totals = [0] * len(names)
        told: list[dict[str, Any]] = []
        held = 0
        for first, last in self._pieces():
            best, seen = -1, (0, list(totals))
            for at in range(first, last):
                move = self._moves[at]
                number = abs(move) - 1
                change = self._sizes[number] if move > 0 else -self._sizes[number]
                totals[self._kind_of[number]] += change
                held += change
                if held > best:
                    best, seen = held, (at, list(totals))
            at, parts = seen
            step, phase = self._phase(at)
            owners = {name: size for name, size in zip(names, parts, strict=True) if size > 0}
            told.append({"step": step, "phase": phase, "reserved": self._reserved[at], "owners": owners})
        return told

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Return first and last move of each piece: a phase has as many as its moves are worth, and one at least.

        Where there are more phases than half the points, pieces are of one length, whatever the phase.
        """
        total = len(self._moves)
        ends = [first for first, _, _ in self._spans[1:]] + [total] * bool(self._spans)
        if len(self._spans) > MOST // 2:
            size = -(-total // MOST)
            for first in range(0, total, size):
                yield first, min(first + size, total)
            return
        room = MOST - len(self._spans)
        for (first, _, _), end in zip(self._spans, ends, strict=True):
            count = min(end - first, 1 + (end - first) * room // total)
            for part in range(count):
                yield first + (end - first) * part // count, first + (end - first) * (part + 1) // count

    def _phase(self, at: int) -> tuple[int, str]:
        _, step, phase = self._spans[bisect_right([first for first, _, _ in self._spans], at) - 1]
        return step, phase
