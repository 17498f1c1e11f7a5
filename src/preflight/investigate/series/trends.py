"""Slopes that outliers do not bend: Theil-Sen over blocks, with an interval that knows of the noise's memory; falls behind a rise."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

BLOCKS = 30
"""Blocks of a stretch; their medians are compared pair by pair."""

FALLS = 12
"""Least values behind a rise that tell whether they fall."""


class Slope(NamedTuple):
    """A slope, an interval for it, and the Mann-Kendall statistic in standard deviations (negative: it falls)."""

    value: float
    low: float
    high: float
    z: float


def slope_of(along: Any, numbers: Any, z: float) -> Slope | None:
    """The slope of the numbers over ``along``, with an interval of ``z`` standard deviations either way."""
    import numpy

    count = min(BLOCKS, len(numbers) // 4)
    if count < 8:
        return None
    size = len(numbers) // count
    kept = numbers[len(numbers) - count * size :].reshape(count, size)
    places = along[len(along) - count * size :].reshape(count, size).mean(1)
    middles = numpy.median(kept, axis=1)
    first, second = numpy.triu_indices(count, 1)
    apart = places[second] - places[first]
    good = apart > 0
    slopes = numpy.sort((middles[second] - middles[first])[good] / apart[good])
    if not len(slopes):
        return None
    value = float(numpy.median(slopes))
    # A bend is no memory: what is left is taken from a parabola.
    rest = middles - numpy.polyval(numpy.polyfit(places - places[0], middles, 2), places - places[0])
    memory = max(0.0, _memory(rest))
    wide = math.sqrt(count * (count - 1) * (2 * count + 5) / 18 * (1 + memory) / (1 - memory))
    s = float(numpy.sign(middles[second] - middles[first]).sum())
    reach = z * wide
    pairs = len(slopes)
    low = slopes[max(0, math.floor((pairs - reach) / 2))]
    high = slopes[min(pairs - 1, math.ceil((pairs + reach) / 2))]
    return Slope(value, float(low), float(high), s / wide)


def falls_again(numbers: Any, before: float) -> bool:
    """Whether a loss that rose has come down since by half of what it rose, and went on to do so to the end.

    Another stage with parameters or data that are new to it starts high and is learnt; what ran away stays up or swings.
    """
    import numpy

    if len(numbers) < FALLS:
        return False
    stretches = [float(numpy.median(part)) for part in numpy.array_split(numbers, 3)]
    first, middle, last = stretches
    return first > middle > last and first - last >= 0.5 * (first - before)


def _memory(rest: Any) -> float:
    """The first-order autocorrelation of what is left, with its bias in short series taken out."""
    centred = rest - rest.mean()
    total = float(centred @ centred)
    if total <= 0:
        return 0.0
    seen = float(centred[1:] @ centred[:-1]) / total
    return min(0.8, seen + (3 + 4 * max(0.0, seen)) / len(rest))
