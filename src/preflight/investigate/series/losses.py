"""What a loss shows: it no longer falls, it rises, it jumps."""

from __future__ import annotations

import re
from typing import Any

from preflight.investigate.series.columns import Series
from preflight.investigate.series.shifts import blocks, clipped, find_shift, spread
from preflight.investigate.series.trends import falls_again, slope_of
from preflight.investigate.series.whitened import whitened_fit
from preflight.investigate.series.words import TIMES, number, percent, quote_of, times
from preflight.vocabulary.incident import SeriesFinding

FALSE_ALARMS = 0.005
"""Of each of the three tests, on noise with autocorrelation 0 to 0.9 about a level or about a falling curve."""
EXPLODED = 10.0
"""So many times as high as ever before is no noise."""
BOTTOMLESS = -1e6
"""Likelihoods go below nought; so far below, and many times as far as before, goes what has no least value."""
_BEYOND_RATIO = 1000
"""So many times as high is said of values that were about nought, and of those a ratio tells nothing."""
MOST_PLACES = 50
RISE = 0.02
"""Least rise that is told, as a share of the level."""
WON = 0.02
"""Share of what a loss had come down by, of which less is no loss of a run that goes on."""
LOST = 0.25
"""A rise by such a share of the level is a failure of its own; a smaller one is told, and the run goes on."""
MARKED = 0.1
"""The same of a loss that is as high again as where it began."""
SHARES = (0.5, 0.65, 0.35, 0.25)
"""Shares of the values, from the end, that may be a plateau."""
FELL = 1e-6
"""Probability, without a fall, of what is taken for one: a loss has to have fallen before it can stop to."""
SLOWER = 0.0013
"""Probability of a slower fall in each of the four shares, where the loss goes with the inverse of the step."""
MATTERS = 0.002
"""Least missing fall that is told, as a share of how far the loss has come down."""
LONG = 20_000
"""Values above which jumps are held against medians of blocks, not of the values around each."""
OFTEN = 0.005
"""Jumps in so many of the values are no jumps any more."""
_REWARDED = re.compile(
    r"(?<![a-z])(?:rewards?|returns?|rew|(?:policy|value|actor|critic|q)[_/ -]?(?:function[_/ -]?)?loss|advantages?)(?![a-z])"
)
"""Names of what an agent is given for what it does, and of the losses of what it learns by."""
REACH = 25
"""Values on either side that a jump is held against."""


def divergence(series: Series) -> SeriesFinding | None:
    """The loss rose and stayed up."""
    import numpy

    numbers = series.numbers
    exploded = _exploded(numbers)
    if exploded is None and float(numbers.min()) < BOTTOMLESS:
        sunk = _exploded(-numbers)
        if sunk is not None:
            return _sunk(series, sunk)
    place = (0, exploded) if exploded is not None else _risen(numbers)
    if place is None:
        return None
    start, at = place
    before = float(numpy.median(numbers[max(start, at - 200) : at] if at > start + 4 else numbers[start : at + 5]))
    after = float(numpy.median(numbers[max(at, len(numbers) - max(10, (len(numbers) - at) // 2)) :]))
    noise = spread(numpy.diff(numbers[start:])) or 0.0
    if after - before < RISE * max(abs(before), noise) or _of_other_work(series, at):
        return None
    step = series.step(at)
    again = falls_again(numbers[at:], before)
    so_far = "is coming down again" if again else "has not come down"
    return SeriesFinding(
        kind="divergence",
        series=series.name,
        text=f"{series.name} rose from {number(before)} to {number(after)} {series.place(at)} and {so_far}",
        first_step=step,
        last_step=series.step(len(numbers) - 1),
        false_alarms=FALSE_ALARMS,
        values={
            "before": before,
            "after": after,
            "at": at,
            "values": len(numbers),
            "lost": not again
            and not _of_rewards(series, at)
            and (exploded is not None or _is_lost(numbers, at, before, after)),
        },
        quote=quote_of(series.lines[at], series.name),
    )


def _is_lost(numbers: Any, at: int, before: float, after: float) -> bool:
    """Whether so much was lost that the run is none that goes well: a part of the level itself, or all that had been won.

    A loss that swings about nought, as that of a policy does, has no level: a rise is held against how far it swung.
    A loss that has come down to a thousandth of where it began doubles and halves with what is drawn, or with the next
    stage of a curriculum: next to nothing of what had been won is lost.
    """
    import numpy

    first = numbers[: max(5, len(numbers) // 50)]
    began = float(numpy.median(first))
    rise = after - before
    if rise < WON * (float(first.max()) - before):
        return False
    level = max(abs(before), _swing(numbers[:at]))
    return rise >= LOST * level or (after >= began and rise >= MARKED * level)


def _swing(numbers: Any) -> float:
    """How far values reach on both sides of nought; 0 where they are on one side of it."""
    import numpy

    low, high = (float(value) for value in numpy.percentile(numbers, [5, 95])) if len(numbers) else (0.0, 0.0)
    return min(-low, high) if low < 0 < high else 0.0


def _of_rewards(series: Series, at: int) -> bool:
    """Whether the lines tell of rewards, or of a policy and its critic: the better it does, the larger what it has to predict."""
    return any(_REWARDED.search(name) for line in series.lines[at : at + REACH] for name in line.values)


def _of_other_work(series: Series, at: int) -> bool:
    """Whether lines that tell other things begin there, such as those of a second stage: their loss is another one."""
    if at < 1 or at >= len(series.lines):
        return False
    names = [frozenset(line.values) for line in series.lines]
    return names[at] not in set(names[:at]) and names[at - 1] not in set(names[at:])


def _sunk(series: Series, at: int) -> SeriesFinding:
    """A loss that falls without a bottom: what is minimised has none, as of outputs or labels beyond their range."""
    before, after = float(series.numbers[at - 1]), float(series.numbers[-1])
    return SeriesFinding(
        kind="divergence",
        series=series.name,
        text=f"{series.name} fell without a bottom, from {number(before)} {series.place(at)} to {number(after)}",
        first_step=series.step(at),
        last_step=series.step(len(series.numbers) - 1),
        false_alarms=FALSE_ALARMS,
        values={"before": before, "after": after, "at": at, "values": len(series.numbers)},
        quote=quote_of(series.lines[at], series.name),
    )


def _exploded(numbers: Any) -> int | None:
    """Where all values from here on are higher than any before, and most of them many times: that needs no test."""
    import numpy

    if len(numbers) < 8:
        return None
    highest = numpy.maximum.accumulate(numpy.abs(numbers))[:-1]
    lowest = numpy.minimum.accumulate(numbers[::-1])[::-1][1:]
    above: Any = numpy.flatnonzero((lowest > highest) & (highest > 0)) + 1
    for at in above[(above >= 5) & (above <= len(numbers) - 2)][:MOST_PLACES]:
        if float(numpy.median(numbers[at:])) > EXPLODED * float(highest[at - 1]):
            return int(at)
    return None


def _risen(numbers: Any) -> tuple[int, int] | None:
    """A last part of the series in which the level rose: where the part begins, and where the rise is."""
    import numpy

    best: tuple[float, int, int] | None = None
    windows = _halves(len(numbers))
    for span in windows:
        start = len(numbers) - span
        found = find_shift(numbers[start:], windows=())
        # In under a hundred values with a long memory the tail is heavier than its formula says.
        tries = len(windows) * (3 if span < 100 else 1)
        if found is not None and found.p * tries <= 0.6 * FALSE_ALARMS and (best is None or found.p < best[0]):
            best = (found.p, start, start + found.at)
    if best is not None:
        return best[1:]
    for span in windows:
        start = len(numbers) - span
        slope = slope_of(numpy.arange(span, dtype=float), clipped(numbers[start:]), 3.0)
        if slope is not None and slope.low > 0 and slope.z > 5.0:
            # A climb has no first step: it is told from the lowest stretch on.
            size = max(1, span // 30)
            means = numpy.convolve(numbers[start:], numpy.ones(size) / size, "valid")
            return start, start + int(numpy.argmin(means)) + size // 2
    return None


def _halves(count: int) -> list[int]:
    """The whole, its last half, its last quarter ... while there are at least 60 values."""
    found = [count]
    while found[-1] // 2 >= 60 and len(found) < 6:
        found.append(found[-1] // 2)
    return found


def plateau(series: Series) -> SeriesFinding | None:
    """The loss fell, and in its last part falls more slowly than even a curve would that goes with the inverse of the step.

    Healthy curves flatten as well; but losses of training fall like a lower power than ``a + b / step``.
    That curve is fitted with one fall before the last part and another in it, the noise's memory taken out: the second has to
    be smaller than the first.
    """
    import numpy

    numbers = series.numbers
    if _constant(numbers):
        return _still(series)
    if len(numbers) < 120:
        return None
    short, size = blocks(_drawn_in(numbers), 4000)
    steps = series.steps if (series.steps > 0).all() else numpy.arange(1, len(numbers) + 1)
    along = blocks(steps.astype(float), 4000)[0]
    for share in SHARES:
        cut = int(len(short) * (1 - share))
        told = _slower_than_inverse(along, short, cut)
        if told is not None:
            return _flat(series, len(numbers) - (len(short) - cut) * size, *told)
    return None


def _slower_than_inverse(along: Any, numbers: Any, cut: int) -> tuple[float, float] | None:
    """What the loss should have done after the cut and what it did; None where it falls as fast as it may be expected to."""
    import numpy

    start = cut // 4
    inverse = along[cut] / along[start:]
    columns = numpy.stack([numpy.ones(len(inverse)), numpy.maximum(inverse, 1) - 1, numpy.minimum(inverse, 1) - 1], 1)
    fit = whitened_fit(numbers[start:], columns)
    if fit is None or fit.above([0, 1, 0]) > FELL or fit.above([0, 1, -1]) > SLOWER:
        return None
    _, before, after = fit.coefficients
    ahead = 1 - float(inverse[-1])
    fell = float(numpy.median(numbers[: max(1, len(numbers) // 50)]) - numpy.median(numbers[cut:]))
    if (before - after) * ahead < MATTERS * fell:
        return None
    return -float(before) * ahead, -float(after) * ahead


def _drawn_in(numbers: Any) -> Any:
    """The numbers with single jumps drawn in to what is around them."""
    import numpy

    around = _running_median(numbers, REACH) if len(numbers) <= LONG else numbers
    rest = numbers - around
    wide = spread(rest)
    return around + numpy.clip(rest, -5 * wide, 5 * wide) if wide > 0 else numbers


def _flat(series: Series, at: int, expected: float, seen: float) -> SeriesFinding:
    step = series.step(at)
    return SeriesFinding(
        kind="plateau",
        series=series.name,
        text=(
            f"{series.name} has changed by {number(seen, True)} since {series.place(at)[3:]}, where the trend before would have "
            f"brought {number(expected, True)}; whether it has converged or is stuck cannot be told from it"
        ),
        first_step=step,
        last_step=series.step(len(series.numbers) - 1),
        false_alarms=FALSE_ALARMS,
        values={"expected": expected, "seen": seen, "at": at, "values": len(series.numbers)},
        quote=quote_of(series.lines[at], series.name),
    )


def _constant(numbers: Any) -> bool:
    return len(numbers) >= 20 and float(numbers.max() - numbers.min()) <= 1e-6 * max(1e-12, float(abs(numbers).max()))


def _still(series: Series) -> SeriesFinding:
    count = len(series.numbers)
    return SeriesFinding(
        kind="plateau",
        series=series.name,
        text=f"{series.name} is {number(float(series.numbers[0]))} in all of {count:,} values: nothing is learnt",
        first_step=series.step(0),
        last_step=series.step(count - 1),
        false_alarms=0.0,
        values={"seen": 0.0, "at": 0, "values": count},
        quote=quote_of(series.lines[0]),
    )


def spikes(series: Series) -> SeriesFinding | None:
    """The loss jumped and came back, or jumped at the very end.

    A value is held against the median of those around it, and against that of those before it.
    The bar rises with the number of values, and is at least half as high again as the deepest fall below the median:
    where the noise has heavy tails, these show on the side where there are no jumps.
    """
    import numpy

    numbers = series.numbers
    if len(numbers) < 40:
        return None
    # The noise of a loss goes with its height: where all values are positive, ratios are compared.
    told = numpy.log(numbers) if float(numbers.min()) > 0 else numbers
    if len(told) <= LONG:
        around = _running_median(told, REACH)
        wide = spread(told - around)
        # A curve that falls steeply lies above the median of its surroundings, but never above that of what was before.
        around = numpy.maximum(around, _median_before(told, REACH))
    else:
        around = _block_median(told, 2 * REACH + 1)
        wide = spread((told - around)[2 * REACH + 1 :])
    rest = told - around
    if not wide > 0:
        return None
    bar = wide * max(6.0, 2.0 + float(numpy.sqrt(2 * numpy.log(len(numbers) / (0.6 * FALSE_ALARMS)))))
    bar = max(bar, 1.5 * float(-numpy.quantile(rest[numpy.isfinite(rest)], min(1.0, 2.0 / len(rest)))))
    if told is not numbers:
        around = numpy.exp(around)
    high = numpy.flatnonzero((rest > bar) & (numbers - around > 0.05 * numpy.abs(around)))
    if not len(high):
        return None
    groups = numpy.split(high, numpy.flatnonzero(numpy.diff(high) > REACH) + 1)
    if len(groups) > max(3, OFTEN * len(numbers)):
        # What happens that often is how this loss is distributed.
        return None
    tops = [int(group[int(numpy.argmax(rest[group]))]) for group in groups]
    worst = max(tops, key=lambda at: float(rest[at]))
    first = int(groups[0][0])
    return SeriesFinding(
        kind="spike",
        series=series.name,
        text=_spiked(series, tops, worst, float(around[worst])),
        first_step=series.step(first),
        last_step=series.step(int(groups[-1][-1])),
        false_alarms=FALSE_ALARMS,
        values={
            "spikes": len(groups),
            "highest": float(numbers[worst]),
            "around": float(around[worst]),
            "deviations": float(rest[worst]) / wide,
            "at_the_end": bool(high[-1] == len(numbers) - 1),
            "values": len(numbers),
        },
        quote=quote_of(series.lines[worst], series.name),
    )


def _spiked(series: Series, tops: list[int], worst: int, around: float) -> str:
    where = series.place(worst)
    highest = float(series.numbers[worst])
    rise = (
        ""
        if around <= 0 or highest >= _BEYOND_RATIO * around or float(series.numbers.min()) < 0
        else f" ({times(highest / around)} as high)"
        if highest >= TIMES * around
        else f" ({percent(highest / around - 1)})"
    )
    if len(tops) == 1:
        return f"{series.name} jumped {where} from {number(around)} to {number(highest)}{rise}"
    return (
        f"{series.name} jumped {len(tops)} times, the highest {where} from {number(around)} to {number(highest)}{rise}"
    )


def _running_median(numbers: Any, reach: int) -> Any:
    """The median of the values around each."""
    import numpy

    padded = numpy.pad(numbers, reach, mode="reflect")
    return numpy.median(numpy.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1), axis=1)


def _block_median(numbers: Any, size: int) -> Any:
    """For long series: the median of the block of each value, or that of the block before where it is higher."""
    import numpy

    count = len(numbers) // size
    middles = numpy.median(numbers[: count * size].reshape(count, size), axis=1)
    middles[1:] = numpy.maximum(middles[1:], middles[:-1])
    found: Any = numpy.repeat(middles, size)
    found[:size] = numpy.inf  # nothing was before
    return numpy.concatenate([found, numpy.full(len(numbers) - len(found), middles[-1])])


def _median_before(numbers: Any, reach: int) -> Any:
    """The median of the values before each, at least five of them; infinite for the first five."""
    import numpy

    found = numpy.full(len(numbers), numpy.inf)
    for at in range(5, min(reach, len(numbers))):
        found[at] = numpy.median(numbers[:at])
    if len(numbers) > reach:
        found[reach:] = numpy.median(numpy.lib.stride_tricks.sliding_window_view(numbers, reach)[:-1], axis=1)
    return found
