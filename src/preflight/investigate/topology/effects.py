"""Take pairwise times apart: what a rank adds to all of its links, what a node does, and what is left to the link."""

from __future__ import annotations

import math
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
EFFICIENCY = 0.37
"""A median of deviations says as much of the spread of normal values as a standard deviation of so many of them would."""
LEAST_FACTOR = 1.3
"""What is slower by less than this is not told, however sure it is."""


class Effects(msgspec.Struct, frozen=True, kw_only=True):
    """Times of pairs as ``common x rank x rank x link``; all factors are ratios, 1 is usual.

    Attributes:
        common: The usual time, in seconds.
        ranks: The factor of each rank.
        links: The factor of each pair that was measured.
        spread: Robust standard deviation of the logarithms of ``links``.
        rank_spread: The same of ``ranks``.
    """

    common: float
    ranks: dict[int, float]
    links: dict[Pair, float]
    spread: float
    rank_spread: float


def polish(times: Mapping[Pair, float]) -> Effects:
    """Fit ``log t = common + rank + rank`` by medians, over and over: what is left is the link's own.

    The medians let up to half of a rank's links be wrong without that being laid to the rank.
    """
    logs = {pair: math.log(max(time, 1e-12)) for pair, time in times.items()}
    ranks = dict.fromkeys(sorted({rank for pair in logs for rank in pair}), 0.0)
    common = median(logs.values()) if logs else 0.0
    for _ in range(ROUNDS):
        moved = 0.0
        for rank in ranks:
            mine = [value - common - ranks[a if b == rank else b] for (a, b), value in logs.items() if rank in (a, b)]
            new = median(mine)
            moved = max(moved, abs(new - ranks[rank]))
            ranks[rank] = new
        shift = median(ranks.values()) if ranks else 0.0
        ranks = {rank: value - shift for rank, value in ranks.items()}
        common += 2 * shift
        if moved < ENOUGH:
            break
    links = {(a, b): value - common - ranks[a] - ranks[b] for (a, b), value in logs.items()}
    return Effects(
        common=math.exp(common), ranks={rank: math.exp(value) for rank, value in ranks.items()},
        links={pair: math.exp(value) for pair, value in links.items()},
        spread=_spread(list(links.values())), rank_spread=_spread(list(ranks.values())),
    )  # fmt: skip


def _spread(values: list[float]) -> float:
    """Return a robust standard deviation; not below 5 %: a handful of medians may agree by chance."""
    if not values:
        return 0.05
    middle = median(values)
    return max(1.4826 * median(abs(value - middle) for value in values), 0.05)


def slow_ranks(effects: Effects) -> dict[int, float]:
    """Return the ranks that make all of their links slow, with their factor; corrected for their number."""
    return _slow(effects.ranks, effects.rank_spread, len(effects.ranks) - 1)


def slow_links(effects: Effects) -> dict[Pair, float]:
    """Return the links that are slow for no fault of their ranks, with their factor; corrected for their number.

    Of n ranks, n numbers were fitted to the links; what is left of them is smaller for it.
    """
    left = len(effects.links) - len(effects.ranks)
    return _slow(effects.links, effects.spread * math.sqrt(len(effects.links) / left), left) if left > 0 else {}


def _slow(factors: Mapping[Any, float], spread: float, freedom: int) -> dict[Any, float]:
    """Return what is slow, the slowest first.

    A factor's distance from 1 in robust deviations is taken for a Student's t, whose degrees of freedom are those that a
    median of deviations is worth; the chances of all factors are corrected by Holm's method.
    """
    ordered = sorted(factors.items(), key=lambda item: -item[1])
    if len(ordered) < FEWEST:
        return {}
    worth = EFFICIENCY * freedom
    chances = holm([upper_tail(math.log(factor) / spread, worth) for _, factor in ordered])
    return {
        key: factor for (key, factor), chance in zip(ordered, chances, strict=True)
        if chance <= LEVEL and factor >= LEAST_FACTOR
    }  # fmt: skip
