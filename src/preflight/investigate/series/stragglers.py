"""Ranks that are slower than the others all along."""

from __future__ import annotations

import math
from typing import Any

from preflight.investigate.series.columns import Track
from preflight.investigate.series.speed import aligned
from preflight.investigate.series.words import longer_than, percent
from preflight.investigate.statistics.student import upper_tail
from preflight.vocabulary.incident import SeriesFinding

FALSE_ALARMS = 0.005
"""Of all ranks together."""
SLOWER = 0.05
"""Least distance from the median rank that is told."""
FAR = 4.0
"""Robust standard deviations between the ranks that it has to be away from their median."""
FEW = 8
"""With so many steps, but fewer than a test takes, a rank is told that takes ``MUCH`` as long as the median rank."""
MUCH = 2.0
LAST = 6
"""It has to do so in all of the last steps but one: half of them, so many at least."""
OF_THE_STEP = 0.1
"""What it takes longer has to be so much of its whole step, where that is told."""
OWN = (
    ("compute", ("forward_seconds", "backward_seconds", "optimizer_seconds")),
    ("compute", ("compute_seconds",)),
    ("data", ("data_seconds",)),
    ("checkpoint", ("checkpoint_seconds",)),
    (None, ()),
)
"""What a rank does by itself; its whole step comes last, because ranks that wait for each other take equally long."""


def stragglers(tracks: list[Track]) -> list[SeriesFinding]:
    """Ranks that take longer than the others in what they do by themselves; and the one that never waits for the others."""
    found: dict[int, SeriesFinding] = {}
    for phase, names in OWN:
        if not names and found:
            continue
        table = aligned(tracks, names)
        findings = _slow(table, phase) if table is not None else _much_slower(tracks, names, phase)
        for finding in findings:
            found.setdefault(finding.ranks[0], finding)
    if not found:
        table = aligned(tracks, ("communication_seconds",))
        if table is not None:
            for finding in _never_waits(table):
                found.setdefault(finding.ranks[0], finding)
    return list(found.values())


def _slow(table: tuple[Any, Any, list[Track]], phase: str | None) -> list[SeriesFinding]:
    import numpy

    steps, rows, owners = table
    chosen = _outlying(numpy.log(rows), phase == "checkpoint")
    what, take = (f"{phase} of rank", "takes") if phase else ("the steps of rank", "take")
    return [
        SeriesFinding(
            kind="straggler",
            series=f"{phase}_seconds" if phase else "seconds",
            text=f"{what} {owners[i].rank} {take} {longer_than(math.exp(far))} on the median rank, "
            f"over {len(steps):,} steps of {len(rows)} ranks",
            first_step=int(steps[0]),
            last_step=int(steps[-1]),
            ranks=(owners[i].rank or 0,),
            phase=phase,
            false_alarms=FALSE_ALARMS,
            values={"ratio": math.exp(far), "deviations": deviations, "ranks": len(rows), "steps": len(steps)},
        )
        for i, far, deviations in chosen
    ]


def _much_slower(tracks: list[Track], names: tuple[str, ...], phase: str | None) -> list[SeriesFinding]:
    """The one rank that takes a multiple of what the median rank takes, in a run too short for a test.

    Of 4,800 made runs whose ranks are alike, and whose times spread by 30 % or less, one has such a rank; where they spread by
    half and are alike for many steps, 3 of 100 have one.
    """
    import numpy

    table, whole = aligned(tracks, names, FEW), aligned(tracks, (), FEW)
    # Checkpoints are written now and then, and by one rank alone as a rule.
    if table is None or len(table[1]) < 3 or phase == "checkpoint":
        return []
    steps, rows, owners = table
    last = rows[:, -max(LAST, len(steps) // 2) :]
    usual = numpy.median(last, axis=0)
    slower = ((last >= MUCH * usual).sum(axis=1) >= last.shape[1] - 1).nonzero()[0]
    if len(slower) != 1:
        return []
    i = int(slower[0])
    ratio, more = float(numpy.median(last[i] / usual)), float(numpy.median(last[i] - usual))
    step = (
        {owner.rank: float(numpy.median(row)) for row, owner in zip(whole[1], whole[2], strict=True)} if whole else {}
    )
    if more < OF_THE_STEP * step.get(owners[i].rank, 0.0):
        return []
    what, take = (f"{phase} of rank", "takes") if phase else ("the steps of rank", "take")
    return [
        SeriesFinding(
            kind="straggler",
            series=f"{phase}_seconds" if phase else "seconds",
            text=f"{what} {owners[i].rank} {take} {longer_than(ratio)} on the median rank, "
            f"over the last {last.shape[1]} steps of {len(rows)} ranks",
            first_step=int(steps[-last.shape[1]]),
            last_step=int(steps[-1]),
            ranks=(owners[i].rank or 0,),
            phase=phase,
            false_alarms=FALSE_ALARMS,
            values={"ratio": ratio, "ranks": len(rows), "steps": last.shape[1]},
        )
    ]


def _never_waits(table: tuple[Any, Any, list[Track]]) -> list[SeriesFinding]:
    """In a collective the last one to come waits least."""
    import numpy

    steps, rows, owners = table
    chosen = _outlying(-numpy.log(rows), False)
    return [
        SeriesFinding(
            kind="straggler",
            series="communication_seconds",
            text=f"rank {owners[i].rank} spends {percent(math.exp(-far) - 1)[1:]} less time in communication than the median rank, "
            f"over {len(steps):,} steps of {len(rows)} ranks: the others wait for it",
            first_step=int(steps[0]),
            last_step=int(steps[-1]),
            ranks=(owners[i].rank or 0,),
            false_alarms=FALSE_ALARMS,
            values={"ratio": math.exp(-far), "deviations": deviations, "ranks": len(rows), "steps": len(steps)},
        )
        for i, far, deviations in chosen
    ]


def _outlying(logs: Any, sparse: bool) -> list[tuple[int, float, float]]:
    """Rows that lie above the others: their number, how far, and in how many robust deviations between the rows.

    A row must differ from the median of the others in the mean of ten stretches of the run, by a t test with Holm's correction
    (stretches, because neighbouring steps are alike), and be an outlier among the rows.
    """
    import numpy

    ranks, count = logs.shape
    if ranks < 3 or sparse and count < 40:
        return []
    pieces = 10
    size = count // pieces
    if size < 2:
        return []
    blocks = numpy.median(logs[:, count - pieces * size :].reshape(ranks, pieces, size), axis=2)
    gaps = blocks - numpy.median(blocks, axis=0)
    means = gaps.mean(1)
    errors = gaps.std(1, ddof=1) / math.sqrt(pieces)
    between = 1.4826 * float(numpy.median(numpy.abs(means - numpy.median(means))))
    floor = max(between, float(numpy.median(errors)), 1e-9)
    tested = sorted((upper_tail(float(means[i] / max(errors[i], 1e-12)), pieces - 1), i) for i in range(ranks))
    found = []
    for place, (p, i) in enumerate(tested):
        if p * (ranks - place) > FALSE_ALARMS:
            break
        deviations = float(means[i] - numpy.median(means)) / floor
        if means[i] >= math.log1p(SLOWER) and deviations >= FAR:
            found.append((i, float(means[i]), deviations))
    return found
