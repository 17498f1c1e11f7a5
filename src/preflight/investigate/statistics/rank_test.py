"""The test of Mann and Whitney: do the values of one side tend to be larger?"""

from __future__ import annotations

import math
from collections.abc import Sequence

EXACT = 30
"""Values of both sides together up to which every order is counted."""


def larger(ones: Sequence[float], others: Sequence[float]) -> float:
    """How probable it is that ``ones`` lie so far above ``others``, or farther, where there is no difference."""
    m, n = len(ones), len(others)
    if not m or not n:
        return 1.0
    u = (
        sum((one > other) + 0.5 * (one == other) for one in ones for other in others)
        if m * n <= 4000
        else _u(ones, others)
    )
    tied = len(set(ones) | set(others)) < m + n
    if m + n <= EXACT and not tied:
        return _exact(round(u), m, n)
    ties = 0.0
    if tied:
        seen: dict[float, int] = {}
        for value in (*ones, *others):
            seen[value] = seen.get(value, 0) + 1
        ties = sum(count**3 - count for count in seen.values()) / ((m + n) * (m + n - 1))
    spread = math.sqrt(m * n / 12 * (m + n + 1 - ties))
    # Half of a rank: the statistic jumps in whole ones.
    return 0.5 * math.erfc((u - m * n / 2 - 0.5) / spread / math.sqrt(2)) if spread > 0 else 1.0


def _u(ones: Sequence[float], others: Sequence[float]) -> float:
    from bisect import bisect_left, bisect_right

    order = sorted(others)
    return sum((bisect_left(order, one) + bisect_right(order, one)) / 2 for one in ones)


def _exact(u: int, m: int, n: int) -> float:
    """The tail of the exact distribution: ways to reach each sum of ranks."""
    # ways[k][s]: choices of k of the others' places whose exceedances add up to s.
    ways = [[0] * (m * n + 1) for _ in range(m + 1)]
    ways[0][0] = 1
    for place in range(m + n):
        for k in range(min(m, place + 1), 0, -1):
            below = place - (k - 1)
            if below < 0 or below > n:
                continue
            for total in range(m * n, below - 1, -1):
                ways[k][total] += ways[k - 1][total - below]
    return sum(ways[m][u:]) / math.comb(m + n, m)
