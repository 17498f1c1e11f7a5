"""Counts of events over a time: rates, their exact intervals and ratios."""

from __future__ import annotations

import math

from preflight.investigate.statistics.binomial import at_most, bisect, lower_bound, upper_bound


def up_to(count: int, mean: float) -> float:
    """The probability of at most ``count`` events where ``mean`` are expected."""
    if mean <= 0:
        return 1.0
    logs = [k * math.log(mean) - mean - math.lgamma(k + 1) for k in range(count + 1)]
    return min(1.0, math.fsum(math.exp(one) for one in logs))


def rate_interval(count: int, exposure: float, level: float = 0.95) -> tuple[float, float]:
    """The exact interval for a rate."""
    tail = (1 - level) / 2
    high = bisect(lambda mean: up_to(count, mean) - tail, count, count + 20 + 10 * math.sqrt(count + 1)) / exposure
    if count == 0:
        return 0.0, high
    low = bisect(lambda mean: tail - (1 - up_to(count - 1, mean)), 0.0, float(count)) / exposure
    return low, high


def ratio_interval(
    here: int, time_here: float, there: int, time_there: float, level: float = 0.95
) -> tuple[float, float]:
    """The exact interval for the ratio of two rates: given their sum, the count here is binomial."""
    tail, scale = (1 - level) / 2, time_there / time_here
    low, high = lower_bound(here, here + there, tail), upper_bound(here, here + there, tail)
    return (low / (1 - low) * scale if low < 1 else math.inf), (high / (1 - high) * scale if high < 1 else math.inf)


def fewer_p(here: int, time_here: float, there: int, time_there: float) -> float:
    """How probable so few here, or fewer, are where both rates are the same."""
    return at_most(here, here + there, time_here / (time_here + time_there))
