"""The steps of a file, or of a rank in it, in the order of their lines, so that what was told behind a line needs no search."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from math import isfinite

from preflight.vocabulary.log import StepLine


def numbers_of(steps: Sequence[StepLine]) -> list[int | None]:
    """Return the numbers of the steps of one file, or those of its epochs where a program counts only whole ones; None where none is told.

    Where every step bears the same number, as bars do that are only drawn when they are full, their epochs tell them apart.
    """
    numbers = {step.step for step in steps}
    epochs = [step.values.get("epoch") for step in steps]
    if numbers != {None} and (len(numbers) > 1 or None in epochs or len(set(epochs)) == 1):
        return [step.step for step in steps]
    if any(epoch is not None and isfinite(epoch) and (epoch < 0 or epoch != int(epoch)) for epoch in epochs):
        return [None] * len(epochs)
    return [int(epoch) if epoch is not None and isfinite(epoch) else None for epoch in epochs]


class StepOrder:
    """Steps in the order in which they were told; add them all before the first question."""

    def __init__(self) -> None:
        """Begin with none."""
        self.lines: list[int] = []
        self.numbers: list[int] = []
        self._distinct: list[int] | None = None
        self._last: dict[int, int] = {}
        self._highest: list[int] = []
        self._rising = 0

    def add(self, line: int, number: int) -> None:
        """Take a step."""
        self.lines.append(line)
        self.numbers.append(number)

    def beyond(self, line: int, step: int, most: int) -> int:
        """Return how many different steps beyond one were told behind a line; ``most`` where there are so many or more."""
        return self._count(bisect_right(self.lines, line), step, most)

    def last_before(self, line: int) -> int | None:
        """Return the step that was told last at a line or before it; None where none was."""
        at = bisect_right(self.lines, line)
        return self.numbers[at - 1] if at else None

    def counted_anew(self, line: int, step: int, most: int) -> int:
        """Return how many different steps were told behind a line where they begin below one and never fall back; else 0."""
        at = bisect_right(self.lines, line)
        distinct = self._known()
        if at == len(self.numbers) or self.numbers[at] >= step or at < self._rising:
            return 0
        return self._count(at, distinct[0] - 1, most)

    def begun_again(self, line: int, most: int) -> int:
        """Return how many different steps were told behind a line where the first of all is the next one; ``most`` at most, else 0."""
        at = bisect_right(self.lines, line)
        first = self._known()[0]
        if at == len(self.numbers) or self.numbers[at] != first:
            return 0
        return self._count(at, first - 1, most)

    def _count(self, at: int, step: int, most: int) -> int:
        """Return how many different steps beyond one stand at a place or behind it, from the highest of them down."""
        distinct = self._known()
        if at == len(self.numbers):
            return 0
        first, behind = bisect_right(distinct, step), bisect_right(distinct, self._highest[at])
        told = (distinct[index] for index in range(behind - 1, first - 1, -1) if self._last[distinct[index]] >= at)
        return sum(1 for _ in islice(told, most))

    def _known(self) -> list[int]:
        """Return the different steps in their order, and find out where each was told last."""
        if self._distinct is None:
            self._last = {number: place for place, number in enumerate(self.numbers)}
            self._distinct = sorted(self._last)
            self._highest = list(self.numbers)
            for place in range(len(self.numbers) - 2, -1, -1):
                if self._highest[place] < self._highest[place + 1]:
                    self._highest[place] = self._highest[place + 1]
                if self.numbers[place] > self.numbers[place + 1]:
                    self._rising = max(self._rising, place + 1)
        return self._distinct
