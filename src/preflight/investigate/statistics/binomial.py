"""Counts of failures in a number of runs: tails, Clopper-Pearson, Fisher, the sequential test of Wald."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

_CHI_SQUARE_95 = 3.841458820694124
"""What a chi-square of one degree of freedom stays below in 95 % of cases."""


def log_choose(whole: int, part: int) -> float:
    """The logarithm of the number of ways to choose ``part`` of ``whole``; minus infinity where there is none."""
    if part < 0 or part > whole:
        return -math.inf
    return math.lgamma(whole + 1) - math.lgamma(part + 1) - math.lgamma(whole - part + 1)


def at_least(hits: int, count: int, chance: float) -> float:
    """The probability of at least so many hits."""
    if hits <= 0:
        return 1.0
    if hits > count or chance <= 0:
        return 0.0
    if chance >= 1:
        return 1.0
    # The shorter side is summed.
    if hits > count * chance:
        return min(1.0, sum(_mass(k, count, chance) for k in range(hits, count + 1)))
    return max(0.0, 1.0 - sum(_mass(k, count, chance) for k in range(hits)))


def at_most(hits: int, count: int, chance: float) -> float:
    """The probability of at most so many hits."""
    if hits < 0:
        return 0.0
    return at_least(count - hits, count, 1 - chance)


def _mass(hits: int, count: int, chance: float) -> float:
    return math.exp(log_choose(count, hits) + hits * math.log(chance) + (count - hits) * math.log1p(-chance))


def interval(hits: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """The interval of Clopper and Pearson for a rate: it holds the true one in at least ``level`` of cases."""
    tail = (1 - level) / 2
    return lower_bound(hits, count, tail), upper_bound(hits, count, tail)


def upper_bound(hits: int, count: int, tail: float = 0.05) -> float:
    """The rate that is too high for so few hits: 0 of 59 gives 0.05, by and large 3 / count."""
    if count <= 0 or hits >= count:
        return 1.0
    if hits == 0:
        return -math.expm1(math.log(tail) / count)
    return bisect(lambda chance: at_most(hits, count, chance) - tail, hits / count, 1.0)


def lower_bound(hits: int, count: int, tail: float = 0.05) -> float:
    """The rate that is too low for so many hits."""
    if count <= 0 or hits <= 0:
        return 0.0
    if hits == count:
        return math.exp(math.log(tail) / count)
    return bisect(lambda chance: tail - at_least(hits, count, chance), 0.0, hits / count)


def share_ratio_interval(here: int, of_here: int, there: int, of_there: int) -> tuple[float, float]:
    """The interval of 95 % for the ratio of two shares, by the score test turned around (Koopman, Biometrics 40, 1984).

    It exists for shares of 0 and 1, too, and leaves 1 out where the test finds a difference; its upper end is infinite where
    the other share may be zero. For small counts it holds the true ratio in 95 % of cases on average, not in each.

    Args:
        here: Hits on one side.
        of_here: How many there are on that side; positive.
        there: Hits on the other side.
        of_there: How many there are on it; positive.
    """
    if not here + there:
        return 0.0, math.inf

    def beyond(log_ratio: float) -> float:
        """How far the counts are from this ratio, less what 95 % of cases stay below."""
        ratio = math.exp(log_ratio)
        # The most probable share there, given the ratio: the smaller root of (of_here + of_there) r p^2 - b p + hits = 0.
        whole, hits = (of_here + of_there) * ratio, here + there
        b = ratio * (of_here + there) + here + of_there
        share = 2 * hits / (b + math.sqrt(max(0.0, b * b - 4 * whole * hits)))
        return _pearson(here, of_here, ratio * share) + _pearson(there, of_there, share) - _CHI_SQUARE_95

    # Ratios beyond a billion and below its inverse are no different from infinity and zero for counts of jobs.
    far = math.log(1e9)
    seen = math.log((here / of_here) / (there / of_there)) if here and there else far if here else -far
    low = math.exp(bisect(beyond, -far, seen)) if here else 0.0
    high = math.exp(bisect(lambda log_ratio: -beyond(log_ratio), seen, far)) if there else math.inf
    return low, high


def _pearson(hits: int, count: int, share: float) -> float:
    """How far hits are from those expected, squared, over their variance; shares of 0 and 1 expect what they must."""
    off, spread = hits - count * share, count * share * (1 - share)
    if abs(off) < 1e-9 * count:
        return 0.0
    return off * off / spread if spread > 0 else math.inf


def bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function crosses zero."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if function(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def clean_runs(rate: float, tail: float = 0.05) -> int:
    """How many runs without a failure rule out a rate: 59 for 5 %, by and large 3 / rate."""
    if rate >= 1:
        return 1
    return math.ceil(math.log(tail) / math.log1p(-rate) - 1e-9)


def all_of_them_before(failed: int, before: int, after: int, *, chosen: bool) -> float:
    """How probable it is that all of ``failed`` failures fall before a change that changes nothing.

    Args:
        failed: Failures, all of them among the runs before.
        before: Runs before.
        after: Runs after, none of which failed.
        chosen: The comparison is made only because something failed before: then that one did is no news, and is conditioned on.
    """
    everywhere = log_choose(before + after, failed)
    every = math.exp(log_choose(before, failed) - everywhere)
    if not chosen:
        return every
    none = math.exp(log_choose(after, failed) - everywhere)
    return min(1.0, every / (1 - none)) if none < 1 else 1.0


def fisher(a: int, b: int, c: int, d: int, *, middle: bool = False) -> float:
    """One-sided probability of at least ``a`` hits of ``a + b``, where ``c`` of ``c + d`` hit elsewhere.

    Args:
        a: Hits here.
        b: Misses here.
        c: Hits elsewhere.
        d: Misses elsewhere.
        middle: Count half of the probability of what was seen (mid-p): closer to the stated level, no longer a bound.
    """
    hits, here, whole = a + c, a + b, a + b + c + d
    everywhere = log_choose(whole, hits)
    terms = [
        math.exp(log_choose(here, k) + log_choose(whole - here, hits - k) - everywhere)
        for k in range(a, min(hits, here) + 1)
    ]
    return max(0.0, min(1.0, sum(terms) - (terms[0] / 2 if middle and terms else 0.0)))


class Sequential(NamedTuple):
    """The state of a sequential test: the logarithm of the likelihood ratio, its two bars, and what follows."""

    ratio: float
    gone: float
    there: float
    verdict: Literal["gone", "there", "undecided"]


def sequential(
    failed: int, runs: int, rate: float, tolerated: float, alpha: float = 0.05, beta: float = 0.05
) -> Sequential:
    """Wald's test between the rate of before and a tolerated one, for looking after every run.

    ``alpha`` is how often "gone" is wrong where the rate is still that of before, ``beta`` how often "there" is.
    """
    ratio = (failed * math.log(tolerated / rate) if failed else 0.0) + (
        (runs - failed) * (math.log1p(-tolerated) - math.log1p(-rate)) if runs > failed and rate < 1 else 0.0
    )
    if rate >= 1 and runs > failed:
        ratio = math.inf
    gone, there = math.log((1 - beta) / alpha), math.log(beta / (1 - alpha))
    return Sequential(ratio, gone, there, "gone" if ratio >= gone else "there" if ratio <= there else "undecided")
