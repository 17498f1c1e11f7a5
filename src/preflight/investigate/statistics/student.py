"""Student's t, by the continued fraction of the incomplete beta function."""

from __future__ import annotations

import math
from functools import lru_cache


def upper_tail(t: float, freedom: float) -> float:
    """The probability of more than ``t``."""
    if t < 0:
        return 1.0 - upper_tail(-t, freedom)
    if freedom > 1e6:
        return 0.5 * math.erfc(t / math.sqrt(2))
    return 0.5 * _beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def _beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function."""
    if x <= 0 or x >= 1:
        return max(0.0, min(1.0, x))
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    # The fraction converges fast on its own side of the mean.
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, evaluated from the front (the method of Lentz)."""
    least = 1e-300
    upper = 1.0
    lower = 1.0 / (1.0 - (a + b) * x / (a + 1) or least)
    value = lower
    for m in range(1, 400):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            lower = 1.0 / (1.0 + term * lower or least)
            upper = 1.0 + term / upper or least
            change = upper * lower
            value *= change
        if abs(change - 1.0) < 1e-12:
            break
    return value


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
