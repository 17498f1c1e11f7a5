"""Keeps steps evenly where a file has more of them than can be kept, and the last ones in any case."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import compress

from preflight.vocabulary.log import StepLine

TAIL = 100
_GOLDEN = 0.6180339887498949
"""Its multiples modulo 1 spread evenly at any length, so that what repeats every 2nd or 8th line is not missed."""


class Sample:
    """The steps of one file.

    Attributes:
        seen: Lines that looked like steps.
    """

    def __init__(self, most: int) -> None:
        """Keep about ``most``, between half of it and all of it, and the last ones."""
        self._most = max(most, 2)
        # Side by side, not in pairs: a million pairs would be gone through again and again by the collector of cycles.
        self._kept: list[StepLine] = []
        self._numbers: list[int] = []
        self._share = 1.0
        self._last: deque[StepLine] = deque(maxlen=TAIL)
        self._tail: deque[tuple[int, int]] = deque(maxlen=TAIL)
        self.seen = 0

    def wants(self, start: int, end: int) -> bool:
        """Whether the next line is one to be kept; where it is not, its place is remembered for a while."""
        self.seen += 1
        if self._share >= 1.0 or self.seen * _GOLDEN % 1.0 < self._share:
            return True
        self._tail.append((start, end))
        return False

    def add(self, step: StepLine) -> None:
        """Keep a step."""
        self._kept.append(step)
        self._numbers.append(self.seen)
        if len(self._kept) > self._most:
            self._thin()

    def takes(self, count: int) -> bool:
        """Whether so many lines that come next are all kept, and none of those before has to go for them."""
        return self._share >= 1.0 and len(self._kept) + count <= self._most

    def add_all(self, steps: Sequence[StepLine | None]) -> None:
        """Keep the steps of lines that it ``takes``; None for a line that tells of none."""
        told = [(number, step) for number, step in enumerate(steps, self.seen + 1) if step is not None]
        self._kept += [step for _, step in told]
        self._numbers += [number for number, _ in told]
        self.seen += len(steps)

    def limit(self, most: int) -> None:
        """Keep no more than about ``most`` from now on."""
        self._most = max(most, 2)
        while len(self._kept) > self._most:
            self._thin()

    def _thin(self) -> None:
        self._share /= 2
        stay = [number * _GOLDEN % 1.0 < self._share for number in self._numbers]
        self._kept = list(compress(self._kept, stay))
        self._numbers = list(compress(self._numbers, stay))

    def add_last(self, step: StepLine) -> None:
        """Keep a step because it is one of the last."""
        self._last.append(step)

    def next_page(self) -> None:
        """Forget the places of the lines that were passed over: they are in a block that is gone."""
        self._tail.clear()

    def passed_over(self) -> list[tuple[int, int]]:
        """Return the places of the last lines in this block that were not kept."""
        places = list(self._tail)
        self._tail.clear()
        return places

    def kept(self) -> list[StepLine]:
        """Return the steps in the order of their lines."""
        steps = list(self._kept)
        if self._last:
            known = {(step.line, step.step) for step in steps}
            steps += [step for step in self._last if (step.line, step.step) not in known]
        return sorted(steps, key=lambda step: step.line)

    @property
    def thinned(self) -> bool:
        """Whether steps were left out."""
        return self._share < 1.0
