"""Which phase took the time where no phase times are printed: what stands in the log between a step and the one before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from preflight.investigate.series.columns import Series, Track

MOSTLY = 0.6
"""Share of the long steps that have to tell it."""
SELDOM = 0.2
"""Share of the other steps that may."""
UNTOLD = "the log does not tell which phase; times of data, forward, backward and communication would"
RATES_OF_WORK = ("tokens_per_second", "samples_per_second", "tflops", "mfu")


class Mark(NamedTuple):
    """A line that says what the program did: ``checkpoint`` or ``evaluation``."""

    file: int
    line: int
    kind: str


def with_evaluations(marks: Iterable[Mark], tracks: Sequence[Track]) -> tuple[Mark, ...]:
    """The marks with the lines that tell the loss of an evaluation and no loss of training."""
    told = (
        Mark(line.file, line.line, "evaluation")
        for track in tracks
        if len(track.points("val_loss").at)
        for line in track.lines
        if "val_loss" in line.values and "loss" not in line.values
    )
    return (*marks, *told)


def phase_by_times(series: Series, long: Any) -> str | None:
    """The phase whose printed time makes much of the long steps, and not of the others."""
    chosen = {int(one) for one in long}
    others = [at for at in range(len(series.lines)) if at not in chosen]
    for name, phase in (("checkpoint_seconds", "checkpoint"), ("data_seconds", "data")):
        on = sum(_share(series, at, name) >= 0.3 for at in chosen)
        off = sum(_share(series, at, name) >= 0.3 for at in others)
        if chosen and on >= MOSTLY * len(chosen) and off <= SELDOM * len(others):
            return phase
    return None


def phase_by_marks(series: Series, long: Any, marks: Sequence[Mark]) -> str | None:
    """What the program did before the long steps and not before the others: ``checkpoint`` or ``evaluation``."""
    chosen = {int(one) for one in long}
    for kind in ("checkpoint", "evaluation"):
        between = _between(series, [mark for mark in marks if mark.kind == kind])
        others = len(between) - len(chosen & between.keys())
        on = sum(between[at] for at in chosen if at in between)
        off = sum(between[at] for at in between.keys() - chosen)
        if on >= 2 and on >= MOSTLY * len(chosen & between.keys()) and off <= SELDOM * max(1, others):
            return kind
    return None


def _share(series: Series, at: int, name: str) -> float:
    """Which part of a step a phase took, where both are printed."""
    values = series.lines[at].values
    whole = values.get("seconds", float(series.numbers[at]))
    return values.get(name, 0.0) / whole if whole > 0 else 0.0


def _between(series: Series, marks: Sequence[Mark]) -> dict[int, bool]:
    """For each step: whether a mark stands between the line of the step before it and its own.

    Only steps between the first and the last mark of a file are told of: of lines that come very often not all are kept.
    """
    import numpy

    found: dict[int, bool] = {}
    by_file: dict[int, list[int]] = {}
    for mark in marks:
        by_file.setdefault(mark.file, []).append(mark.line)
    sorted_lines = {file: numpy.unique(lines) for file, lines in by_file.items()}
    for at in range(1, len(series.lines)):
        before, own = series.lines[at - 1], series.lines[at]
        lines = sorted_lines.get(own.file)
        if lines is None or before.file != own.file or not lines[0] <= own.line or before.line > lines[-1]:
            continue
        low, high = sorted((before.line, own.line))
        found[at] = bool(numpy.searchsorted(lines, high) > numpy.searchsorted(lines, low))
    return found


def more_work(series: Series, tracks: Sequence[Track], before: int, low: int, high: int) -> bool:
    """Whether longer steps did as much more: a rate of work is printed, and it did not fall with them."""
    import numpy

    if series.name != "seconds":
        return False
    slower = float(numpy.median(series.numbers[low:high]) / numpy.median(series.numbers[before:low]))
    for track in tracks:
        for name in RATES_OF_WORK:
            at, numbers = track.points(name)
            steps = track.steps[at]
            old = numbers[(steps >= series.steps[before]) & (steps < series.steps[low])]
            new = numbers[(steps >= series.steps[low]) & (steps <= series.steps[high - 1])]
            if len(old) >= 8 and len(new) >= 8 and float(numpy.median(old)) > 0:
                return float(numpy.median(new) / numpy.median(old)) > 1 - 0.2 * (slower - 1)
    return False
