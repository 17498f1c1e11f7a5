"""Axes of pictures: round ticks, and whether a label has room."""

from __future__ import annotations

import math
from typing import Any

from preflight.vocabulary.quantity import format_bytes

WIDE, NARROW = 620.0, 300.0
"""Pixels that a drawing has at least on a screen or on paper, and on a telephone."""
LETTER = 6.7
"""Pixels of a letter at the size in which pictures are lettered."""


def percent(value: float, full: float) -> float:
    """Return a value in percent of the whole, within the drawing."""
    return round(min(max(100.0 * value / full, 0.0), 100.0), 2) if full > 0 else 0.0


def room(text: str, share: float, pixels: tuple[float, float] = (NARROW, WIDE)) -> str | None:
    """Return where a label fits into a share (percent) of the drawing: everywhere (""), only if it is ``wide``, nowhere."""
    needed = len(text) * LETTER + 6
    narrow, wide = (share / 100 * one for one in pixels)
    return "" if needed <= narrow else "wide" if needed <= wide else None


def round_step(full: float, most: int) -> float:
    """Return the smallest of 1, 2, 5, 10, 20 ... of which ``most`` at most lie within a length."""
    if full <= 0:
        return 1.0
    least = full / most
    power = 10.0 ** math.floor(math.log10(least))
    return next(one * power for one in (1.0, 2.0, 5.0, 10.0) if one * power >= least * (1 - 1e-9))


def byte_ticks(full: float, most: int = 5) -> list[dict[str, Any]]:
    """Return round sizes from 0 up with their height in percent."""
    unit = next(one for one in (2.0**40, 2.0**30, 2.0**20, 2.0**10, 1.0) if full >= 2 * one or one == 1.0)
    step = round_step(full / unit, most) * unit
    return [
        {"at": percent(number * step, full), "name": format_bytes(number * step) if number else "0"}
        for number in range(int(full / step) + 1)
    ]


def step_ticks(total: float, most: int = 8, low: float = 0.0) -> list[dict[str, Any]]:
    """Return round steps with their places in percent."""
    every = max(1, int(round_step(total, most)))
    first = math.ceil(low / every) * every
    return [
        {"name": f"{step:,}", "at": percent(step - low, total)} for step in range(first, int(low + total) + 1, every)
    ]


class Logarithmic:
    """A logarithmic axis over some values, with a little room at both ends."""

    def __init__(self, values: list[float], margin: float = 1.06) -> None:
        """Span the values."""
        self.low, self.high = min(values) / margin, max(values) * margin

    def at(self, value: float) -> float:
        """Return the place of a value in percent."""
        return round(100 * math.log(value / self.low) / math.log(self.high / self.low), 2)

    def ticks(self, most: int = 5) -> list[float]:
        """Return round values within the axis: powers of ten, or 1, 2 and 5 of each, or steps where it is short."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for heads in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
            found = [
                value for power in powers for head in heads if self.low <= (value := head * 10.0**power) <= self.high
            ]
            if len(found) > 2:
                return found[:: -(-len(found) // most)]
        step = round_step(self.high - self.low, most)
        first = math.ceil(self.low / step)
        return [number * step for number in range(first, int(self.high / step) + 1)]

    def size_ticks(self) -> list[float]:
        """Return powers of two within the axis, four or five of them."""
        low, high = math.ceil(math.log2(self.low)), math.floor(math.log2(self.high))
        every = -(-(high - low + 1) // 5) or 1
        return [2.0**power for power in range(low, high + 1, every)]
