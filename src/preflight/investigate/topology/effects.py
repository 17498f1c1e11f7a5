"""Take pairwise times apart: what a rank adds to all of its links, what a node does, and what is left to the link."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import Any

import msgspec

from preflight.investigate.statistics.multiple import holm
from preflight.investigate.statistics.student import upper_tail

Pair = tuple[int, int]
FEWEST = 3
"""Of fewer than three nobody can say who is the slow one."""
ROUNDS = 20
ENOUGH = 1e-6
LEVEL = 0.01
"""The family-wise error that is allowed: over all pairs and ranks, in one test of a hundred one is accused wrongly."""
LEAST_SPREAD = 0.05
"""A standard deviation of logarithms below which nothing is believed: a handful of medians may agree by chance."""
EFFICIENCY = 0.37
"""A median of deviations says as much of the spread of normal values as a standard deviation of so many of them would."""
MOST_OF = 3
"""One of so many that are more than what was fitted may be slow, at the most."""
LEAST_FACTOR = 1.3
"""What is slower by less than this is not told, however sure it is."""


class Effects(msgspec.Struct, frozen=True, kw_only=True):
    """Times of pairs as ``common x rank x rank x link``; all factors are ratios, 1 is usual.

    Attributes:
        common: The usual time, in seconds.
        ranks: The factor of each rank that has more than one link.
        links: The factor of each pair that was measured.
    """

    common: float
    ranks: dict[int, float]
    links: dict[Pair, float]


def polish(times: Mapping[Pair, float]) -> Effects:
    """Fit ``log t = common + rank + rank`` by medians, over and over: what is left is the link's own.

    The medians let up to half of a rank's links be wrong without that being laid to the rank. Of a rank with one link nobody
    can say what it adds: that is the link's, whichever end it may be.
    """
    logs = {pair: math.log(max(time, 1e-12)) for pair, time in times.items()}
    met = Counter(rank for pair in logs for rank in pair)
    ranks = dict.fromkeys(sorted(rank for rank, links in met.items() if links > 1), 0.0)
    common = median(logs.values()) if logs else 0.0
    for _ in range(ROUNDS):
        moved = 0.0
        for rank in ranks:
            mine = [
                value - common - ranks.get(a if b == rank else b, 0.0)
                for (a, b), value in logs.items()
                if rank in (a, b)
            ]
            new = median(mine)
            moved = max(moved, abs(new - ranks[rank]))
            ranks[rank] = new
        shift = median(ranks.values()) if ranks else 0.0
        ranks = {rank: value - shift for rank, value in ranks.items()}
        common += 2 * shift
        if moved < ENOUGH:
            break
    links = {(a, b): value - common - ranks.get(a, 0.0) - ranks.get(b, 0.0) for (a, b), value in logs.items()}
    return Effects(
        common=math.exp(common), ranks={rank: math.exp(value) for rank, value in ranks.items()},
        links={pair: math.exp(value) for pair, value in links.items()},
    )  # fmt: skip


def slow_ranks(effects: Effects) -> dict[int, float]:
    """Return the ranks that make all of their links slow, with their factor; corrected for their number."""
    return _slow(effects.ranks, 1)


def slow_links(effects: Effects) -> dict[Pair, float]:
    """Return the links that are slow for no fault of their ranks, with their factor; corrected for their number.

    Of n ranks, n numbers were fitted to the links; what is left of them is smaller for it.
    """
    return _slow(effects.links, len(effects.ranks))


def _slow(factors: Mapping[Any, float], fitted: int) -> dict[Any, float]:
    """Return what is slow, the slowest first: by either of two tests, each of which may err in half of ``LEVEL``.

    Args:
        factors: Ratios; 1 is usual.
        fitted: So many numbers were fitted to them, which makes all of them smaller but those that are left out.
    """
    ordered = sorted(factors.items(), key=lambda item: -item[1])
    if len(ordered) < FEWEST:
        return {}
    logs = [math.log(factor) for _, factor in ordered]
    slow = max(_beyond_the_rest(logs, fitted), _beyond_the_middle(logs, fitted))
    return {key: factor for key, factor in ordered[:slow] if factor >= LEAST_FACTOR}


def _beyond_the_rest(logs: list[float], fitted: int) -> int:
    """How many of the largest are too large for the spread of the others; for few values, which are quiet but for these.

    The slowest is compared with the spread of the others alone, then the two slowest with that of the rest, and so on (the
    generalised test of Rosner, Technometrics 25, 1983): one that is slow does not hide itself, nor do two hide each other.
    A distance in such deviations is a Student's t with as many degrees of freedom as values are left beside what was fitted.
    """
    count, slow = len(logs), 0
    for number in range(1, max((count - fitted) // MOST_OF, 1) + 1):
        freedom = count - number - fitted
        if freedom < 1:
            break
        spread = max(math.sqrt(sum(value * value for value in logs[number:]) / freedom), LEAST_SPREAD)
        distance = logs[number - 1] / (spread * math.sqrt(count / (count - fitted)))
        if upper_tail(distance, freedom) * (count - number + 1) <= LEVEL / 2:
            slow = number
    return slow


def _beyond_the_middle(logs: list[float], fitted: int) -> int:
    """How many of the largest are too large for the spread of the middle half; for many values, some of which were disturbed.

    The median of the deviations does not mind a few links that something else slowed down for a moment. A distance is taken
    for a Student's t with the degrees of freedom that such a median is worth; the chances are corrected by Holm's method.
    """
    count = len(logs)
    left = count - fitted
    if left < 1:
        return 0
    spread = max(1.4826 * median(abs(value - median(logs)) for value in logs), LEAST_SPREAD) * math.sqrt(count / left)
    chances = holm([upper_tail(value / spread, EFFICIENCY * left) for value in logs])
    return sum(chance <= LEVEL / 2 for chance in chances)
