"""Who spoke when: the ranks of a run over time, as counts, for a map."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from preflight.investigate.case.case import Case
from preflight.vocabulary.incident import Activity
from preflight.vocabulary.log import Reading, Who

SPANS = 96
"""So many spans of time at most: each is some ten pixels wide on a page."""
MOST_RANKS = 1024


def activity_of(case: Case) -> Activity | None:
    """Count the steps and the lines that mean something, by rank and span of time, on the reference clock.

    Returns:
        The counts by time where lines bear times, else by step; None where fewer than two ranks, or only one moment, are seen.
    """
    timed = []
    for who, file, time in _moments(case.reading):
        rank, node = case.people.placed(who, file)
        if rank is not None and (corrected := case.corrected(time, node)) is not None:
            timed.append((rank, corrected))
    if _worth_it(timed):
        return _counted(timed, "seconds")
    stepped = [
        (rank, float(line.step))
        for line in case.reading.steps
        if line.step is not None and (rank := case.people.placed(line.who, line.file)[0]) is not None
    ]
    return _counted(stepped, "steps") if _worth_it(stepped) else None


def _moments(reading: Reading) -> Iterable[tuple[Who, int, float | None]]:
    yield from ((line.who, line.file, line.time) for line in reading.steps)
    yield from ((hit.who, hit.file, hit.time) for hit in reading.hits)
    for spoke in reading.spoke:
        yield from ((spoke.who, spoke.file, time) for time in (spoke.first_time, spoke.last_time))
    for file in reading.files:
        yield from ((file.who, file.index, time) for time in (file.first_time, file.last_time))


def _worth_it(moments: list[tuple[int, float]]) -> bool:
    """Whether at least two ranks speak, over more than one span."""
    times = [at for _, at in moments]
    return len({rank for rank, _ in moments}) > 1 and max(times) - min(times) >= 1.0


def _counted(moments: list[tuple[int, float]], unit: str) -> Activity:
    """Return the counts in equal spans; a span is at least one second or one step, and whole."""
    first, last = min(at for _, at in moments), max(at for _, at in moments)
    width = float(max(1, math.ceil((last - first) / (SPANS - 1))))
    spans = int((last - first) // width) + 1
    rows: dict[int, list[int]] = defaultdict(lambda: [0] * spans)
    for rank, at in moments:
        rows[rank][int((at - first) // width)] += 1
    chosen = sorted(rows)[:MOST_RANKS]
    return Activity(
        first=first,
        width=width,
        unit="steps" if unit == "steps" else "seconds",
        rows={rank: tuple(rows[rank]) for rank in chosen},
    )
