"""A change of level in a series whose noise remembers itself.

Each candidate step is tested inside a regression on the values before, up to two, so that noise with memory is not taken for a
change of level; the largest t over all places is compared with what simulation gives for series without any change.

The tail of that largest t was simulated for 40 to 2,000 values and first-order autocorrelation 0 to 0.9
(``benchmarks/investigate/series.py``).
With ``u = t - 6.5 sqrt(memory / n)``, where the memory is the sum of the coefficients beside the step, the probability is
``(1 + 100 / n) exp(0.9 - 0.42 u^2)`` or less.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

LEAST = 15
"""Values on either side of a change."""
MOST = 1500
"""Longer series are averaged in blocks before they are searched."""
CLIP = 5.0
"""Outliers are drawn in to so many robust standard deviations: a pause is not a change of level."""


class Shift(NamedTuple):
    """A change of level: the first value after it, the statistic, and its probability without any change."""

    at: int
    t: float
    p: float


def spread(numbers: Any) -> float:
    """A robust standard deviation."""
    import numpy

    middle = numpy.median(numbers)
    found = 1.4826 * float(numpy.median(numpy.abs(numbers - middle)))
    # More than half of the values are the same one (times printed with few digits): the mean deviation still tells.
    return found if found > 0 else 1.2533 * float(numpy.mean(numpy.abs(numbers - middle)))


def clipped(numbers: Any, times: float = CLIP) -> Any:
    """The numbers with outliers drawn in."""
    import numpy

    middle, wide = numpy.median(numbers), spread(numbers)
    return numpy.clip(numbers, middle - times * wide, middle + times * wide) if wide > 0 else numbers


def tail(t: float, count: int, memory: float) -> float:
    """How probable a largest t of this size is in a series of this length and memory without a change."""
    u = t - 6.5 * math.sqrt(min(1.0, max(0.0, memory)) / count)
    return 1.0 if u <= 1.4 else min(1.0, (1 + 100 / count) * math.exp(0.9 - 0.42 * u * u))


def largest_shift(numbers: Any, *, both: bool = False, least: int = LEAST) -> Shift | None:
    """The likeliest change of level upwards (or either way); None where the series is too short or never varies.

    How many values before are looked at (none, one or two) is chosen by Akaike's criterion: each costs some power.
    """
    import numpy

    count = len(numbers)
    if count < 2 * least + 8:
        return None
    scale = float(numpy.std(numbers))
    if not scale > 1e-12 * max(1e-300, float(numpy.abs(numbers).max())):
        return None
    x = (numbers - numbers.mean()) / scale
    scans = [_scan(x, lags, both, max(least, int(0.05 * count))) for lags in range(3)]
    best = min(scans, key=lambda one: one.score)
    p = tail(abs(best.t), count, best.memory) * (2 if both else 1)
    return Shift(best.at, best.t, min(1.0, p))


class _Scanned(NamedTuple):
    """The best place for a step, in a regression on so many values before."""

    at: int
    t: float
    memory: float
    score: float


def _scan(x: Any, lags: int, both: bool, margin: int) -> _Scanned:
    import numpy

    count = len(x)
    used = count - lags
    y = x[lags:]
    past = numpy.stack([numpy.ones(used), *(x[lags - back : count - back] for back in range(1, lags + 1))], axis=1)
    inverse = numpy.linalg.pinv(past.T @ past)
    rest = y - past @ (inverse @ (past.T @ y))
    # Sums from each place to the end: the step that begins there, seen through the regression.
    sums = numpy.cumsum(past[::-1], axis=0)[::-1]
    along = numpy.cumsum(rest[::-1])[::-1]
    length = numpy.arange(used, 0, -1) - numpy.einsum("ni,ij,nj->n", sums, inverse, sums)
    inside = slice(margin, used - margin + 1)
    along, length = along[inside], numpy.maximum(length[inside], 1e-9)
    left = numpy.maximum(float(rest @ rest) - along * along / length, 1e-12 * count)
    t = along / numpy.sqrt(length * left / (used - lags - 2))
    best = int(numpy.argmax(numpy.abs(t) if both else t))
    beside = inverse @ (past.T @ y - along[best] / length[best] * sums[best + margin])
    score = count * math.log(float(left[best]) / used) + 2 * lags
    return _Scanned(best + margin + lags, float(t[best]), float(beside[1:].sum()), score)


def blocks(numbers: Any, most: int = MOST) -> tuple[Any, int]:
    """Means of blocks of equal length, at most ``most`` of them, and that length; what does not fill the first one is left out."""
    size = -(-len(numbers) // most)
    if size <= 1:
        return numbers, 1
    count = len(numbers) // size
    return numbers[len(numbers) - count * size :].reshape(count, size).mean(1), size


def find_shift(numbers: Any, *, both: bool = False, windows: tuple[int, ...] = (1000, 240)) -> Shift | None:
    """The likeliest change in the whole series or in its last part; the probability is for all of the windows together."""
    spans = [len(numbers), *(one for one in windows if len(numbers) >= 2 * one)]
    best: Shift | None = None
    for span in spans:
        part = clipped(numbers[len(numbers) - span :])
        short, size = blocks(part)
        found = largest_shift(short, both=both)
        if found is None:
            continue
        offset = len(numbers) - span + (span - len(short) * size)
        at = _refined(part, found.at * size + (span - len(short) * size), size) + len(numbers) - span
        assert at >= offset
        if best is None or found.p < best.p:
            best = Shift(at, found.t, found.p)
    return None if best is None else best._replace(p=min(1.0, best.p * len(spans)))


def _refined(numbers: Any, at: int, size: int) -> int:
    """The place around ``at`` that splits the numbers best into two levels; the t test is a few values off."""
    import numpy

    reach = max(10, 2 * size)
    low, high = max(0, at - 20 * reach), min(len(numbers), at + 20 * reach)
    around = numbers[low:high]
    places = numpy.arange(max(low + 3, at - reach), min(high - 3, at + reach) + 1)
    if len(places) < 2:
        return at
    sums = numpy.concatenate([[0.0], numpy.cumsum(around)])
    left: Any = places - low
    right: Any = len(around) - left
    gain = sums[left] ** 2 / left + (sums[-1] - sums[left]) ** 2 / right
    return int(places[int(numpy.argmax(gain))])


def _inside(numbers: Any, alpha: float) -> Shift | None:
    """A change seen in a shorter stretch: what rises and falls again is no single step of the whole."""
    spans: list[tuple[int, int]] = []
    size = len(numbers) // 2
    while size >= 40 and len(spans) < 64:
        spans += [(low, low + size) for low in range(0, len(numbers) - size + 1, max(1, size // 2))]
        size //= 2
    best: Shift | None = None
    for low, high in spans:
        found = find_shift(numbers[low:high], both=True, windows=())
        if found is not None and found.p * len(spans) <= alpha and (best is None or found.p < best.p):
            best = Shift(low + found.at, found.t, found.p)
    return best


def levels(numbers: Any, alpha: float, *, most: int = 8) -> list[int]:
    """Places where the level changes either way, found one after the other; each search is at level 4/3 of ``alpha``."""
    edges = [0, len(numbers)]
    waiting = [(0, len(numbers))]
    while waiting and len(edges) < most + 2:
        low, high = waiting.pop(0)
        found = find_shift(numbers[low:high], both=True)
        if found is None or found.p > alpha:
            found = _inside(numbers[low:high], alpha / 3)
        if found is None:
            continue
        at = low + found.at
        if not low + 3 <= at <= high - 3:
            continue
        edges.append(at)
        waiting += [(low, at), (at, high)]
    return sorted(edges)
