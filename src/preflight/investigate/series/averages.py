"""Running averages: many trainers print the mean since the beginning of an epoch, which hides a change and dates it wrongly."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

LEAST = 40
"""Values of one average from which it can be told for one."""
SMOOTH = 0.7
"""Least correlation of neighbours in an average."""
ROUGH = 0.25
"""Most that neighbouring means may differ, as a share of their level: of what is no average, it would be many times that."""
FEWEST = 8
"""Means that have to come out: of an average printed with few digits there is nothing to be worked out."""
POINTS = 200
"""Means that are worked out of one average: the printed digits do not tell every single value."""


def undone(numbers: Any, begins: Any) -> tuple[Any, Any] | None:
    """The means of stretches of an average, and the place of the last value of each; None where it is no average.

    Args:
        numbers: The values as printed.
        begins: Where the average began again.
    """
    import numpy

    edges = [*(int(one) for one in begins), len(numbers)]
    rounds = [(low, high) for low, high in pairwise(edges) if high - low >= LEAST]
    if not rounds or sum(high - low for low, high in rounds) < 0.7 * len(numbers):
        return None
    if float(numpy.median([_smooth(numbers[low:high]) for low, high in rounds])) < SMOOTH:
        return None
    means, places = [], []
    for low, high in rounds:
        size = max(1, (high - low) // POINTS, _coarse(numbers[low:high]))
        ends = numpy.arange(low + size - 1, high, size)
        counted: Any = (ends - low + 1).astype(float)
        sums = numbers[ends] * counted
        means.append(numpy.diff(sums, prepend=0.0) / numpy.diff(counted, prepend=0.0))
        places.append(ends)
    moves = numpy.concatenate([numpy.abs(numpy.diff(one)) for one in means])
    found = numpy.concatenate(means)
    if len(found) < FEWEST:
        return None
    level = float(numpy.median(found))
    if not len(moves) or float(numpy.median(moves)) > ROUGH * level or float((found > 0).mean()) < 0.98:
        return None
    return found, numpy.concatenate(places)


def _smooth(numbers: Any) -> float:
    """How alike neighbours are, but for the first few values."""
    centred = numbers[3:] - numbers[3:].mean()
    total = float(centred @ centred)
    return float(centred[1:] @ centred[:-1]) / total if total > 0 else 0.0


def _coarse(numbers: Any) -> int:
    """How many values are taken together so that the last printed digit of the average makes less than two per cent."""
    import numpy

    apart = numpy.diff(numpy.unique(numbers))
    digit = float(apart[apart > 1e-12 * abs(float(numbers[-1]))].min(initial=numpy.inf))
    level = abs(float(numpy.median(numbers)))
    if not numpy.isfinite(digit) or level <= 0:
        return 1
    return max(1, int(len(numbers) * digit / (0.02 * level)))
