"""Long steps that come back at regular distances: checkpoints, evaluations, garbage collection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from preflight.investigate.series.clues import UNTOLD, Mark, phase_by_marks, phase_by_times
from preflight.investigate.series.columns import Series
from preflight.investigate.series.shifts import spread
from preflight.investigate.series.words import percent, quote_of
from preflight.investigate.statistics.binomial import at_least
from preflight.vocabulary.incident import SeriesFinding
from preflight.vocabulary.quantity import format_duration, format_share

FALSE_ALARMS = 0.003


def period(series: Series, marks: Sequence[Mark] = ()) -> SeriesFinding | None:
    """Steps at least a fifth and six deviations longer than the others, at regular distances.

    With a period of P steps a long step falls on a multiple of it by chance once in P; the binomial tail over all long steps,
    times the number of periods tried, has to be below the false-alarm rate.
    """
    import numpy

    numbers = series.numbers
    if len(numbers) < 40:
        return None
    middle, wide = float(numpy.median(numbers)), spread(numbers)
    long = numpy.flatnonzero(numbers > middle + max(6 * wide, 0.2 * middle))
    if not 4 <= len(long) <= len(numbers) // 4:
        return None
    known = bool((series.steps >= 0).all())
    places = series.steps[long] if known else long
    apart = numpy.diff(places)
    tried = sorted(
        {int(one) for one in (numpy.median(apart), numpy.min(apart), math.gcd(*map(int, apart))) if one >= 2}
    )
    best: tuple[float, int, int] | None = None
    for every in tried:
        left: Any = places % every
        phase = int(numpy.bincount(left.astype(int)).argmax()) if every < 10_000_000 else int(left[0])
        on = int((left == phase).sum())
        # The phase was chosen to fit: one long step is spent on it.
        p = at_least(on - 1, len(long) - 1, 1.0 / every) * len(tried)
        if on >= max(4, 0.6 * len(long)) and (best is None or p < best[0]):
            best = (p, every, phase)
    if best is None or best[0] > FALSE_ALARMS:
        return None
    _, every, phase = best
    hit = long[places % every == phase]
    extra = float(numpy.median(numbers[hit])) - middle
    share = float(extra * len(hit) / numbers.sum())
    named = phase_by_times(series, hit) or phase_by_marks(series, hit, marks)
    added = (
        f"takes {format_duration(extra)} longer"
        if series.name == "seconds"
        else f"is {percent(extra / middle)[1:]} longer"
    )
    return SeriesFinding(
        kind="periodic",
        series=series.name,
        text=f"every {every:,} steps one {added} ({len(hit)} times, {format_share(share, 1)} of the time)"
        + f": {named or UNTOLD}",
        first_step=series.step(int(hit[0])),
        last_step=series.step(int(hit[-1])),
        phase=named,
        false_alarms=FALSE_ALARMS,
        values={"every": every, "extra": extra, "times": len(hit), "share": share, "values": len(numbers)},
        quote=quote_of(series.lines[int(hit[0])], series.name),
    )
