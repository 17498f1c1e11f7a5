"""The beta distribution, by the continued fraction of its integral."""

from __future__ import annotations

import math


def incomplete(a: float, b: float, x: float) -> float:
    """The probability of at most ``x``: the regularised incomplete beta function."""
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
