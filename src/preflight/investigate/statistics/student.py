"""Student's t."""

from __future__ import annotations

import math
from functools import lru_cache

from preflight.investigate.statistics.beta import incomplete


def upper_tail(t: float, freedom: float) -> float:
    """The probability of more than ``t``."""
    if t < 0:
        return 1.0 - upper_tail(-t, freedom)
    if freedom > 1e6:
        return 0.5 * math.erfc(t / math.sqrt(2))
    return 0.5 * incomplete(freedom / 2, 0.5, freedom / (freedom + t * t))


@lru_cache(maxsize=1024)
def quantile(tail: float, freedom: float) -> float:
    """The t that is exceeded with probability ``tail`` (below one half)."""
    low, high = 0.0, 2.0
    while upper_tail(high, freedom) > tail:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if upper_tail(middle, freedom) > tail else (low, middle)
    return (low + high) / 2
