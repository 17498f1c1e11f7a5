"""How sure an answer is: what the judgement makes of its own probability, measured on labelled logs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

Ground = Literal["signature", "symptom", "exception", "ending", "signal", "healthy", "quiet", "nothing"]
"""What an answer rests on: a signature that names a cause, one that only points to it, the class of an exception, nothing
but how a process ended, a signal that anybody can have sent, steps that go on or an end that is told, many lines without
a word of trouble, or none of these."""


@lru_cache(maxsize=1)
def table() -> dict[str, tuple[tuple[float, float], ...]]:
    """Return for each ground the points (probability before, share that was right), ascending."""
    from preflight.catalog.files import parse

    content = parse(os.path.join(os.path.dirname(os.path.abspath(__file__)), "calibration.toml"))
    return {
        ground: tuple((float(before), float(after)) for before, after in points)
        for ground, points in content["points"].items()
    }


def calibrated(ground: Ground, probability: float) -> float:
    """Return how often an answer that rests on this, with this probability, is right."""
    return between(table().get(ground, ()), probability)


def between(points: Sequence[tuple[float, float]], probability: float) -> float:
    """Return the value on the line through points, level beyond the first and the last; without points what was given."""
    if not points:
        return probability
    if probability <= points[0][0]:
        return points[0][1]
    for (left, low), (right, high) in pairwise(points):
        if probability <= right:
            return low + (high - low) * (probability - left) / (right - left)
    return points[-1][1]
