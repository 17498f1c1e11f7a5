"""Counts of failures in a number of runs: tails, Clopper-Pearson, Fisher, the sequential test of Wald."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple


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
