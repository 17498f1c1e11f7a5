"""A number over the steps of a run of any length: what stands out of the whole, and every one of the last points."""

from __future__ import annotations

import math

import msgspec

from preflight.monitor.thinning import thinned

MOST_POINTS = 1000
TAIL = 200
"""The last points, which are all kept."""
_EVEN = MOST_POINTS - 2 * TAIL
"""Points kept of what is before them; what is left between is room to grow, so that points are dropped seldom."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Points of a curve that somebody lacks.

    Attributes:
        generation: How often points were dropped; with a new one, all points are sent anew.
        start: The place of the first of them in the curve.
        steps: The steps.
        values: The values; None where a number is not finite.
    """

    generation: int
    start: int
    steps: list[int]
    values: list[float | None]


class Curve:
    """Points in the order in which they come, thinned where there are too many.

    Attributes:
        generation: How often points were dropped.
        last: The last value; None where it is not finite, or there is none.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.last: float | None = None
        self._steps: list[int] = []
        self._values: list[float | None] = []
        self._numbers: list[int] = []  # how many points came before each
        self._width = 1
        self._seen = 0

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: int, value: float | None) -> None:
        """Take a point."""
        self.last = value if value is not None and math.isfinite(value) else None
        self._steps.append(step)
        self._values.append(self.last)
        self._numbers.append(self._seen)
        self._seen += 1
        if len(self._steps) > MOST_POINTS:
            self._thin()

    def since(self, generation: int, start: int) -> Piece | None:
        """What somebody lacks who has the first points of a generation; None where that is nothing."""
        if generation != self.generation:
            start = 0
        if start >= len(self._steps):
            return None
        return Piece(generation=self.generation, start=start, steps=self._steps[start:], values=self._values[start:])

    def recent(self) -> list[float]:
        """The last values that are finite, of the tail."""
        return [value for value in self._values[-TAIL:] if value is not None]

    def copy(self) -> Curve:
        """A curve with the same points, which stays as it is."""
        other = Curve()
        other.generation, other.last = self.generation, self.last
        other._steps, other._values = self._steps[:], self._values[:]
        return other

    def _thin(self) -> None:
        """Keep what stands out of what is before the tail; the same points whenever it is done."""
        tail = len(self._steps) - TAIL
        while len(kept := thinned(self._numbers[:tail], self._values[:tail], self._width)) > _EVEN:
            self._width *= 2
        kept += range(tail, len(self._steps))
        self._steps = [self._steps[at] for at in kept]
        self._values = [self._values[at] for at in kept]
        self._numbers = [self._numbers[at] for at in kept]
        self.generation += 1
