"""Which events failures follow more often than chance would have it.

Two chances are worked out, and the larger one counts.
The exact one: each failure falls into the time after events with the share that this time has; failures within ten
minutes of the one before count once, because a storm of restarts is one misfortune.
The turned one: all failures are turned around against the events by the same amount, which keeps what is clustered in either.
It is left out for events at regular distances: against these every turn by their distance gives the same picture again, and
nothing could be found; unless the failures are regular as well, for then coincidence of two clocks is what has to be ruled out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from preflight.investigate.events.exposure import Observed, after, inside
from preflight.investigate.events.timing import LEAST, LEVEL, periods
from preflight.investigate.statistics.binomial import at_least
from preflight.investigate.statistics.multiple import benjamini_hochberg
from preflight.investigate.statistics.poisson import ratio_interval
from preflight.vocabulary.association import Association

WINDOWS = (300.0, 1800.0)
TURNS = 1999
STORM = 600.0
"""Seconds within which a further failure is no further misfortune."""


def precursors(observed: Observed, windows: Sequence[float] = WINDOWS, seed: int = 0) -> list[Association]:
    """Every type of event with every window, the most probable associations first."""
    import numpy

    random = numpy.random.default_rng(seed)
    turned = (observed.failures[None, :] + random.uniform(0, observed.length, TURNS)[:, None]) % observed.length
    clockwork = (when := periods(observed.clock)) is not None and when.found
    alone = numpy.concatenate([[True], numpy.diff(observed.failures) > STORM])
    rows = []
    for name, places in sorted(observed.events.items()):
        for window in windows:
            begins, stops = after(places, window, observed.ends)
            covered = float((stops - begins).sum())
            if not 0 < covered < observed.length:
                continue
            hit = inside(observed.failures, begins, stops)
            p = at_least(int(hit[alone].sum()), int(alone.sum()), covered / observed.length)
            if clockwork or not _regular(places):
                by_turning = inside(turned, begins, stops).sum(1)
                p = max(p, (1 + int((by_turning >= hit.sum()).sum())) / (1 + TURNS))
            rows.append((name, window, int(hit.sum()), covered, p))
    corrected = benjamini_hochberg([row[4] for row in rows])
    found = [_association(observed, *row, q) for row, q in zip(rows, corrected, strict=True)]
    return sorted(found, key=lambda one: (one.q, one.p, -(one.ratio or math.inf)))


def _regular(places: Any) -> bool:
    """Whether events come at distances that hardly differ."""
    import numpy

    apart = numpy.diff(numpy.sort(places))
    apart = apart[apart > 0.1 * numpy.median(apart)] if len(apart) else apart
    return len(apart) >= 5 and float(apart.std()) < 0.3 * float(apart.mean())


def _association(
    observed: Observed, name: str, window: float, seen: int, covered: float, p: float, q: float
) -> Association:
    rest, free = len(observed.failures) - seen, observed.length - covered
    low, high = ratio_interval(seen, covered, rest, free)
    ratio = seen / covered / (rest / free) if rest else None
    associated = q <= LEVEL and low > 1
    times = f"{ratio:.1f} times as often" if ratio is not None else "only"
    told = "associated" if associated else "not told from chance"
    text = (
        f"{seen} of {seen + rest} failures within {window / 60:g} min after {name}, in {100 * covered / observed.length:.1f} % of the time: "
        f"{times} ({low:.2g} to {high:.3g}), {told}"
    )
    return Association(
        of="event", name=name, window=window, failures=(seen, rest), exposure=(covered / 3600, free / 3600), ratio=ratio, low=low,
        high=high if math.isfinite(high) else None, p=p, q=q, associated=associated, text=text,
    )  # fmt: skip


def needed(share: float, tests: int, ratio: float = 5.0, power: float = 0.9) -> int:
    """How many failures it takes to find a ratio with this power, where the event covers a share of the time.

    The power is that of the exact test alone; failures that lie close and the other tests take some of it, so that 0.9 here are
    0.8 and more in all.
    """
    chance = share * ratio / (share * ratio + 1 - share)
    for count in range(LEAST, 2000):
        bar = next(k for k in range(count + 2) if at_least(k, count, share) <= LEVEL / max(1, tests))
        if at_least(bar, count, chance) >= power:
            return count
    return 2000
