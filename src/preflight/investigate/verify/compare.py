"""Is a metric worse after the change than before it?

Where each side has three runs or more, a run is one value: runs differ from each other by more than their steps do.
With fewer runs the steps are compared: warm-up dropped, in blocks longer than their memory; the interval is that of the ratio of
medians over resampled blocks, the test is Mann and Whitney's on the medians of blocks.
Differences are taken of logarithms, so that an interval is one of the ratio.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from preflight.investigate.statistics import rank_test, student
from preflight.investigate.statistics.multiple import holm
from preflight.investigate.verify.directions import LOSSES, Wanted
from preflight.investigate.verify.trial import Trial
from preflight.vocabulary.verification import Compared, Direction

RUNS = 3
"""Runs on each side from which on a run is one value."""
WARM_UP = 10
"""Steps at the beginning of a run that are not compared."""
LEAST_BLOCKS = 8
RESAMPLES = 400
MOST_STEPS = 4000


class Estimate(NamedTuple):
    """The logarithm of after over before (above zero: larger after), its error, and the chance of it either way."""

    before: float
    after: float
    value: float
    low: float
    high: float
    p_larger: float
    p_smaller: float
    counts: tuple[int, int]
    of: Literal["runs", "steps"]
    method: str


def compare(
    before: Sequence[Trial], after: Sequence[Trial], wanted: Wanted, *, alpha: float = 0.05, warm_up: int | None = None,
    declared_only: bool = False, all_of_them: bool = False,
) -> list[Compared]:  # fmt: skip
    """Compare every wanted metric, with Holm's correction for their number."""
    wanted.refuse_what_is_not_told(name for one in (*before, *after) for name in one.series)
    there = {name for one in before for name in one.series} & {name for one in after for name in one.series}
    names = wanted.chosen(there, all_of_them=all_of_them)
    if declared_only:
        names = [name for name in names if name in wanted.directions]
    directions = {name: wanted.direction(name) for name in names}
    estimates = {name: estimate(name, before, after, alpha, warm_up, len(names)) for name in names}
    chances = {}
    for name, found in estimates.items():
        if not isinstance(found, str):
            chances[name] = _worse(found, directions[name])
    corrected = dict(zip(chances, holm(list(chances.values())), strict=True))
    result = []
    for name in names:
        found = estimates[name]
        margin = wanted.margins.get(name, wanted.margin)
        told_by: Literal["declared", "known"] = "declared" if name in wanted.directions else "known"
        if isinstance(found, str):
            # A curve that nobody asked for and that too few seeds drew is passed over in silence: it decides nothing.
            if name in wanted.directions or name not in LOSSES:
                result.append(
                    Compared(
                        metric=name,
                        direction=directions[name],
                        told_by=told_by,
                        verdict="undecided",
                        text=found,
                        margin=margin,
                    )
                )
            continue
        result.append(_judged(name, directions[name], told_by, margin, found, corrected[name], alpha))
    return result


def _worse(found: Estimate, direction: Direction) -> float:
    if direction == "equal":
        return min(1.0, 2 * min(found.p_larger, found.p_smaller))
    return found.p_larger if direction == "lower" else found.p_smaller


def _judged(
    name: str,
    direction: Direction,
    told_by: Literal["declared", "known"],
    margin: float,
    found: Estimate,
    p: float,
    alpha: float,
) -> Compared:
    """Weigh the interval against the margin, and the chance against the level."""
    bar = math.log1p(margin)
    # Above zero: worse by so much.
    sign = -1.0 if direction == "higher" else 1.0
    value, low, high = sorted_by(sign, found)
    if direction == "equal":
        worse, same = p <= alpha and abs(value) > bar and low * high > 0, -bar < low and high < bar
        better = False
        value, high = abs(value), max(abs(low), abs(high))
    else:
        worse, same = p <= alpha and value > bar and low > 0, high < bar
        better = same and high < 0 and _better(found, direction) <= alpha
    verdict: Literal["worse", "better", "same", "undecided"] = (
        "worse" if worse else "better" if better else "same" if same else "undecided"
    )
    ratio = math.exp(found.value)
    needed = _needed(value, high - value, bar, max(found.counts)) if verdict == "undecided" else None
    interval = f"{100 * math.expm1(found.low):+.1f} % to {100 * math.expm1(found.high):+.1f} %"
    told = f"{name} {found.before:,.6g} before, {found.after:,.6g} after: {100 * (ratio - 1):+.1f} % ({interval})"
    ends = {
        "worse": f"worse by more than the margin of {100 * margin:g} % (p = {p:.2g})",
        "better": f"better (p = {_better(found, direction):.2g})",
        "same": f"not worse by the margin of {100 * margin:g} %",
        "undecided": f"about {needed:,} {found.of} on each side would decide it" if needed else "undecided",
    }
    return Compared(
        metric=name, direction=direction, told_by=told_by, verdict=verdict, text=f"{told}; {ends[verdict]}",
        margin=margin, before=found.before, after=found.after, ratio=ratio, low=math.exp(found.low), high=math.exp(found.high),
        p=p, values=found.counts, of=found.of, method=found.method, needed=needed,
    )  # fmt: skip


def sorted_by(sign: float, found: Estimate) -> tuple[float, float, float]:
    """Value, low and high end, where larger is worse."""
    return (found.value, found.low, found.high) if sign > 0 else (-found.value, -found.high, -found.low)


def _better(found: Estimate, direction: Direction) -> float:
    return found.p_smaller if direction == "lower" else found.p_larger


def _needed(value: float, reach: float, bar: float, count: int) -> int | None:
    """How many values would narrow the interval until it lies on one side: its width goes with one over the square root."""
    room = abs(bar - value) if value < bar else value
    if not (reach > 0 and room > 0 and math.isfinite(reach)):
        return None
    return max(count + 1, math.ceil(count * (reach / max(room, 0.1 * bar)) ** 2))


def estimate(
    name: str, before: Sequence[Trial], after: Sequence[Trial], alpha: float, warm_up: int | None, tests: int
) -> Estimate | str:
    """Estimate the change of a metric; a sentence where it cannot be."""
    old = [one for one in before if one.series.get(name)]
    new = [one for one in after if one.series.get(name)]
    if not old or not new:
        side = "before" if not old else "after"
        return f"{name}: no value {side} the change"
    if name in LOSSES and any(len(one.series[name]) > 1 for one in (*old, *new)):
        if min(len(old), len(new)) < RUNS:
            return f"{name}: seeds differ, and {len(old)} and {len(new)} runs do not tell by how much; {RUNS} on each side are needed"
        values = _at_equal_places(name, old, new)
        return (
            values
            if isinstance(values, str)
            else _of_runs(*values, alpha, tests, "the second half of the curves at equal places")
        )
    if min(len(old), len(new)) >= RUNS:
        return _of_runs(
            _middles(name, old, warm_up), _middles(name, new, warm_up), alpha, tests, "the median of each run"
        )
    if min(min(len(one.series[name]) for one in old), min(len(one.series[name]) for one in new)) < 4:
        return f"{name}: {len(old)} and {len(new)} runs are too few; {RUNS} on each side are needed at least"
    return _of_steps(name, old, new, alpha, warm_up)


def _settled(values: Sequence[float], warm_up: int | None) -> Sequence[float]:
    drop = min(WARM_UP, len(values) // 6) if warm_up is None else min(warm_up, max(0, len(values) - 1))
    return values[drop:]


def _middles(name: str, trials: Sequence[Trial], warm_up: int | None) -> list[float]:
    return [statistics.median(_settled(one.series[name], warm_up)) for one in trials]


def _at_equal_places(name: str, old: Sequence[Trial], new: Sequence[Trial]) -> tuple[list[float], list[float]] | str:
    """The mean of each curve over the second half of the stretch that all of them cover."""
    import numpy

    curves = []
    for one in (*old, *new):
        values = numpy.asarray(one.series[name])
        places = numpy.asarray(one.places.get(name, range(len(values))), dtype=float)
        curves.append((places, values))
    low, high = max(float(x[0]) for x, _ in curves), min(float(x[-1]) for x, _ in curves)
    if not high > low:
        return f"{name}: the curves have no stretch of tokens or steps in common"
    grid = numpy.linspace((low + high) / 2, high, 200)
    means = [float(numpy.interp(grid, x, y).mean()) for x, y in curves]
    return means[: len(old)], means[len(old) :]


def _of_runs(old: list[float], new: list[float], alpha: float, tests: int, what: str) -> Estimate:
    """Runs as values: Welch's interval; the test is that on ranks where it can reach the level, else Welch's t."""
    positive = min(*old, *new) > 0
    scale = abs(statistics.median(old)) or 1.0
    x = [math.log(one) if positive else one / scale for one in old]
    y = [math.log(one) if positive else one / scale for one in new]
    value = statistics.fmean(y) - statistics.fmean(x)
    one, other = statistics.variance(y) / len(y), statistics.variance(x) / len(x)
    error = math.sqrt(one + other)
    counts = (len(old), len(new))
    if error <= 1e-12 * max(1.0, abs(value)):
        # All runs of a side are the same to the digit: what differs, differs.
        certain = (0.0, 1.0) if value > 1e-12 else (1.0, 0.0) if value < -1e-12 else (1.0, 1.0)
        if certain != (1.0, 1.0) and math.comb(sum(counts), len(old)) * alpha >= tests:
            chance = 1 / math.comb(sum(counts), len(old))
            certain = (chance, 1.0) if value > 0 else (1.0, chance)
        return Estimate(
            statistics.median(old),
            statistics.median(new),
            value,
            value,
            value,
            *certain,
            counts,
            "runs",
            f"{what}; no spread",
        )
    freedom = (one + other) ** 2 / (one**2 / (len(y) - 1) + other**2 / (len(x) - 1))
    reach = student.quantile(alpha, freedom) * error
    if tests / math.comb(sum(counts), len(old)) <= alpha:
        larger, smaller, test = rank_test.larger(y, x), rank_test.larger(x, y), "Mann-Whitney"
    else:
        larger, smaller, test = (
            student.upper_tail(value / error, freedom),
            student.upper_tail(-value / error, freedom),
            "Welch's t",
        )
    middle = (
        (statistics.median(old), statistics.median(new)) if positive else (statistics.fmean(old), statistics.fmean(new))
    )
    return Estimate(
        *middle,
        value,
        value - reach,
        value + reach,
        larger,
        smaller,
        counts,
        "runs",
        f"{what}; {test}, Welch's interval",
    )


def _of_steps(
    name: str, old: Sequence[Trial], new: Sequence[Trial], alpha: float, warm_up: int | None
) -> Estimate | str:
    """Steps of one or two runs: blocks longer than the memory of the series."""
    import numpy

    sides = [
        [_thinned(numpy.asarray(_settled(one.series[name], warm_up), dtype=float)) for one in trials]
        for trials in (old, new)
    ]
    if min(float(values.min()) for side in sides for values in side) <= 0:
        return f"{name}: values of single steps at or below zero are not compared; give {RUNS} runs on each side"
    logs = [[numpy.log(values) for values in side] for side in sides]
    size = _block(logs)
    blocks = [
        [values[low : low + size] for values in side for low in range(0, len(values) - size + 1, size)] for side in logs
    ]
    if min(map(len, blocks)) < LEAST_BLOCKS:
        lacking = LEAST_BLOCKS * size
        return (
            f"{name}: too few steps; about {lacking} after the warm-up are needed on each side, as neighbours are alike"
        )
    random = numpy.random.default_rng(0)
    middles = [float(numpy.median(numpy.concatenate(side))) for side in blocks]
    drawn = []
    for side in blocks:
        table = numpy.stack(side)
        chosen = random.integers(0, len(side), (RESAMPLES, len(side)))
        drawn.append(
            numpy.concatenate([
                numpy.median(table[part].reshape(len(part), -1), axis=1) for part in numpy.array_split(chosen, 20)
            ])
        )  # fmt: skip
    value = middles[1] - middles[0]
    freedom = len(blocks[0]) + len(blocks[1]) - 2
    error = float(numpy.std(drawn[1] - drawn[0])) * math.sqrt(1 + 2 / freedom)
    reach = student.quantile(alpha, freedom) * error
    x, y = ([float(numpy.median(one)) for one in side] for side in blocks)
    counts = (sum(map(len, sides[0])), sum(map(len, sides[1])))
    return Estimate(
        math.exp(middles[0]), math.exp(middles[1]), value, value - reach, value + reach, rank_test.larger(y, x),
        rank_test.larger(x, y), counts, "steps", f"blocks of {size} steps; Mann-Whitney, bootstrap of the ratio of medians",
    )  # fmt: skip


def _thinned(values: Any) -> Any:
    """Long series as medians of neighbours, so that resampling stays cheap."""
    import numpy

    size = -(-len(values) // MOST_STEPS)
    if size <= 1:
        return values
    count = len(values) // size
    return numpy.median(values[len(values) - count * size :].reshape(count, size), axis=1)


def _block(logs: Sequence[Sequence[Any]]) -> int:
    """Three times the time in which a series forgets itself, by its first-order correlation."""
    memory = 0.0
    for side in logs:
        for values in side:
            if len(values) < 8:
                continue
            # Outliers hide memory: they are drawn in first.
            from preflight.investigate.series.shifts import clipped

            rest = clipped(values, 3.0)
            rest = rest - rest.mean()
            total = float(rest @ rest)
            seen = float(rest[1:] @ rest[:-1]) / total if total > 0 else 0.0
            memory = max(memory, seen + (1 + 3 * max(0.0, seen)) / len(values))
    memory = min(0.98, max(0.0, memory))
    return max(1, round(3 * (1 + memory) / (1 - memory)))
