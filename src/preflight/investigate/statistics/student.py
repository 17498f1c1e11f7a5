"""Student's t and the normal distribution, by summation; seven digits are enough for a verdict."""

from __future__ import annotations

import math
from functools import lru_cache

from preflight.investigate.statistics.binomial import bisect


def upper_tail(t: float, freedom: float) -> float:
    """The probability of more than ``t``."""
    if t < 0:
        return 1.0 - upper_tail(-t, freedom)
    if freedom > 1e6:
        return 0.5 * math.erfc(t / math.sqrt(2))
    # With x = sqrt(freedom) tan(angle) the tail is the integral of cos^(freedom - 1) over a finite stretch.
    constant = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(math.pi)
    low = math.atan(t / math.sqrt(freedom))
    # Beyond a dozen widths of the bell nothing is left.
    high = min(math.pi / 2, low + 12 / math.sqrt(freedom))
    parts = 400
    wide = (high - low) / parts
    total = math.fsum(math.exp((freedom - 1) * math.log(math.cos(low + (i + 0.5) * wide))) for i in range(parts))
    return min(0.5, math.exp(constant) * total * wide)


@lru_cache(maxsize=1024)
def quantile(tail: float, freedom: float) -> float:
    """The t that is exceeded with probability ``tail``."""
    high = 2.0
    while upper_tail(high, freedom) > tail:
        high *= 2
    return bisect(lambda t: upper_tail(t, freedom) - tail, 0.0, high)
