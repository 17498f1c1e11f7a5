"""Makes series of steps, and counts in how many of them something is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from preflight.investigate.series import find_in_series
from preflight.vocabulary.log import StepLine, Who

Random = numpy.random.Generator


def lines(
    rank: int | None = None, start: int = 0, seconds_apart: float | None = None, **columns: Any
) -> list[StepLine]:
    count = len(next(iter(columns.values())))
    return [
        StepLine(
            file=0,
            line=i + 1,
            step=start + i,
            values={name: float(column[i]) for name, column in columns.items()},
            who=Who(rank=rank),
            time=None if seconds_apart is None else 1000.0 + i * seconds_apart,
        )
        for i in range(count)
    ]


def noise(count: int, memory: float, random: Random) -> Any:
    """Noise of variance one whose neighbours are correlated by ``memory``."""
    fresh = random.standard_normal(count) * numpy.sqrt(1 - memory**2)
    found = numpy.empty(count)
    found[0] = random.standard_normal()
    for i in range(1, count):
        found[i] = memory * found[i - 1] + fresh[i]
    return found


def share(make: Callable[[Random], list[StepLine]], kind: str | None, repeats: int, seed: int) -> float:
    """In how many of the series a finding of this kind (or of any) is made."""
    random = numpy.random.default_rng(seed)
    found = 0
    for _ in range(repeats):
        kinds = {one.kind for one in find_in_series(make(random))}
        found += bool(kinds) if kind is None else kind in kinds
    return found / repeats


def curve(count: int) -> Any:
    return 2 + 6 * numpy.arange(1, count + 1) ** -0.5
