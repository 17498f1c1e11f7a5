"""When failures come: early or late in a run, or at regular times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from preflight.vocabulary.association import Timing

LEAST = 5
"""Failures below which nothing is said."""
LEVEL = 0.05
DRAWS = 199
CLOCKS = ((3600.0, "hour"), (86400.0, "day"), (604800.0, "week"))


def since_start(lasted: Sequence[tuple[float, bool]], seed: int = 0) -> Timing | None:
    """Whether failures come at a constant rate since the start: Weibull against exponential.

    The chance of so large a likelihood ratio is simulated from the exponential distribution with the same stretches.
    """
    import numpy

    times = numpy.array([one for one, _ in lasted if one > 0])
    failed = numpy.array([bad for one, bad in lasted if one > 0], dtype=bool)
    count = int(failed.sum())
    if count < LEAST:
        return None
    shape, ratio = _weibull(times, failed)
    random = numpy.random.default_rng(seed)
    mean = times.sum() / count
    # A stretch without a failure was stopped at its time; one with a failure could have gone on as long as the longest.
    limits = numpy.where(failed, times.max() * 20, times)
    more = 0
    for _ in range(DRAWS):
        drawn = random.exponential(mean, len(times))
        cut = numpy.minimum(drawn, limits)
        hit = drawn < limits
        more += hit.sum() < 2 or _weibull(cut, hit)[1] >= ratio
    p = (1 + more) / (1 + DRAWS)
    early = shape < 1
    said = "early in a run" if early else "late in a run"
    found = p <= LEVEL
    tells = (
        f"failures come {said} rather than at any time"
        if found
        else "failures come at any time of a run, as far as can be told"
    )
    return Timing(
        kind="since-start", value=shape, p=p, found=found, failures=count,
        text=f"{tells} (Weibull shape {shape:.2f}, p = {p:.2g}, {count} failures in {len(times)} runs)",
    )  # fmt: skip


def _weibull(times: Any, failed: Any) -> tuple[float, float]:
    """Shape of the best Weibull distribution with censored times, and twice its logarithmic gain over the exponential one."""
    import numpy

    logs = numpy.log(numpy.maximum(times, 1e-9))
    logs = logs - logs.max()
    count = int(failed.sum())
    mean = float(logs[failed].mean())

    def slope(shape: float) -> float:
        weights = numpy.exp(shape * logs)
        return float((weights @ logs) / weights.sum()) - 1 / shape - mean

    low, high = 0.02, 50.0
    for _ in range(50):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    shape = math.sqrt(low * high)

    def likelihood(one: float) -> float:
        scale = float(numpy.exp(one * logs).sum()) / count
        return count * (math.log(one) - math.log(scale)) + (one - 1) * mean * count - count

    return shape, max(0.0, 2 * (likelihood(shape) - likelihood(1.0)))


def periods(clock: Sequence[float]) -> Timing | None:
    """Whether failures come at regular times: Rayleigh's test over a grid of periods, corrected for its size."""
    import numpy

    times = numpy.sort(numpy.array(clock))
    count = len(times)
    if count < LEAST:
        return None
    span = float(times[-1] - times[0])
    if span <= 0:
        return None
    # Between neighbours of the grid the phase of the last failure moves by a quarter of a turn.
    highest, lowest = 1 / max(span / 40, 60.0), 2 / span
    tried = [(one, name) for one, name in CLOCKS if one <= span / 2]
    tried += [(1 / one, "") for one in numpy.arange(lowest, highest, 0.25 / span).tolist()]
    best = (1.0, 0.0, "")
    for period, name in tried:
        turn = numpy.exp(2j * math.pi * times / period).mean()
        p = _rayleigh(abs(complex(turn)), count) * len(tried)
        if p < best[0]:
            best = (p, period, name)
    p, period, name = best
    if not period:
        return None
    every = f"once in a {name}" if name else f"every {period / 3600:.3g} h"
    found = p <= LEVEL
    tells = f"failures come {every}" if found else "failures come at no regular time, as far as can be told"
    return Timing(
        kind="period", value=period, p=min(1.0, p), found=found, failures=count,
        text=f"{tells} (p = {min(1.0, p):.2g} after {len(tried)} periods, {count} failures)",
    )  # fmt: skip


def _rayleigh(length: float, count: int) -> float:
    """The probability of so long a mean vector without a direction (the approximation of Wilkie)."""
    r = count * length
    return min(1.0, math.exp(math.sqrt(1 + 4 * count + 4 * (count * count - r * r)) - (1 + 2 * count)))
