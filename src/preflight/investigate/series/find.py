"""Everything that the steps of a run show."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from preflight.investigate.series.adversaries import adversaries
from preflight.investigate.series.clues import Mark, with_evaluations
from preflight.investigate.series.columns import Series, Track, by_step, tracks_of
from preflight.investigate.series.losses import divergence, plateau, spikes
from preflight.investigate.series.numerics import nonfinite, scale_collapse
from preflight.investigate.series.periods import period
from preflight.investigate.series.progress import stopped
from preflight.investigate.series.speed import lagging, run_seconds, slowdowns
from preflight.investigate.series.stragglers import stragglers
from preflight.vocabulary.incident import Quote, SeriesFinding
from preflight.vocabulary.log import LogFile, StepLine

LOSSES = ("loss",)
WARM_UP = 5
"""Values at the beginning of the times of steps that are left out: compilation, caches, the first allocation."""


def find_in_series(
    steps: Sequence[StepLine],
    files: Sequence[LogFile] = (),
    *,
    until: float | None = None,
    marks: Sequence[Mark] = (),
) -> tuple[SeriesFinding, ...]:
    """Say what the steps of a run show, the gravest first.

    Args:
        steps: The step lines of all ranks, in the order in which they were read.
        files: The files they stand in, for the places to quote; without them nothing is quoted.
        marks: Lines that say what the program did between two steps: by them the phase of long steps is told.
        until: The time of the last sign of life of the run, by the same clock: whether steps stopped to come before it.
    """
    tracks = tracks_of(steps) if steps else []
    if len(steps) < 3:  # too few for anything but the last loss itself
        last = (one for one in nonfinite(tracks) if one.series in LOSSES)
        return tuple(_quoted(one, files) for one in (*last, *adversaries(tracks)))
    found: list[SeriesFinding] = [*nonfinite(tracks), *adversaries(tracks)]
    collapse = scale_collapse(tracks)
    if collapse is not None:
        found.append(collapse)
    found += stopped(tracks, until)
    for name in LOSSES:
        series = run_values(tracks, name, reached=True)
        if series is not None:
            found += _of_loss(series)
    found += _of_time(tracks, with_evaluations(marks, tracks))
    return tuple(_quoted(one, files) for one in found)


def run_values(tracks: list[Track], name: str, *, reached: bool = False) -> Series | None:
    """The finite values of the run: the mean over ranks that tell the same steps, else those of the longest track."""
    import numpy

    found = [series for track in tracks if len((series := by_step(track, name, reached=reached)).numbers)]
    if not found:
        return None
    longest = max(found, key=lambda one: len(one.numbers))
    alike = [one for one in found if len(one.steps) == len(longest.steps) and bool((one.steps == longest.steps).all())]
    numbers = longest.numbers
    if len(alike) > 1 and (longest.steps >= 0).all():
        with numpy.errstate(all="ignore"):
            numbers = numpy.median([one.numbers for one in alike], axis=0)
    # What is beyond all measure is left to the search for numbers that are none.
    good = numpy.abs(numpy.nan_to_num(numbers, nan=numpy.inf, posinf=numpy.inf, neginf=numpy.inf)) < 1e100
    if good.all():
        return longest._replace(numbers=numbers)
    kept = numpy.flatnonzero(good)
    if len(kept) < 3:
        return None
    return Series(name, longest.steps[kept], numbers[kept], [longest.lines[i] for i in kept])


def _of_loss(series: Series) -> list[SeriesFinding]:
    rose = divergence(series)
    jumped = spikes(series)
    found = [one for one in (rose, jumped) if one is not None]
    if rose is None:
        flat = plateau(series)
        if flat is not None:
            found.append(flat)
    return found


def _of_time(tracks: list[Track], marks: Sequence[Mark]) -> list[SeriesFinding]:
    found: list[SeriesFinding] = []
    series = run_seconds(tracks)
    if series is not None and len(series.numbers) > 3 * WARM_UP:
        warm = Series(series.name, series.steps[WARM_UP:], series.numbers[WARM_UP:], series.lines[WARM_UP:])
        found += slowdowns(warm, tracks, marks)
        regular = period(warm, marks)
        if regular is not None:
            found.append(regular)
    return [*found, *lagging(tracks), *stragglers(tracks)]


def _quoted(finding: SeriesFinding, files: Sequence[LogFile]) -> SeriesFinding:
    if finding.quote is None:
        return finding
    index = int(finding.quote.path)
    path = next((one.path for one in files if one.index == index), None)
    quote = None if path is None else Quote(path=path, line=finding.quote.line, text=finding.quote.text)
    return msgspec.structs.replace(finding, quote=quote)
