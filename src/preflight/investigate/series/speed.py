"""Where the steps became slower, for how long, on which rank, and which phase of the step did it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from preflight.investigate.series.clues import UNTOLD, Mark, more_work, phase_by_marks
from preflight.investigate.series.columns import HUGE, OTHER_WORK, TINY, Series, Track, step_seconds
from preflight.investigate.series.shifts import clipped, find_shift, levels
from preflight.investigate.series.trends import slope_of
from preflight.investigate.series.words import grew, longer_than, number, quote_of
from preflight.vocabulary.incident import SeriesFinding
from preflight.vocabulary.quantity import format_duration

FEWEST = 20
"""Steps that ranks are compared by; see also ``stragglers``, which tells more than twice as long by fewer."""
FALSE_ALARMS = 0.005
"""Of a search for slower steps in the series of a run; for ranks, of all of them together."""
SLOWER = 0.03
"""Least change of the time of a step that is told."""

UNITS = 5.0
"""So many of the least time that is printed are as little as none, where none is printed as well."""

PHASES = {
    "data_seconds": "data",
    "forward_seconds": "compute",
    "backward_seconds": "compute",
    "optimizer_seconds": "compute",
    "compute_seconds": "compute",
    "communication_seconds": "communication",
    "checkpoint_seconds": "checkpoint",
}


def run_seconds(tracks: list[Track]) -> Series | None:
    """The time of the run's steps: the median over the ranks at each step, or the longest track's where there are no steps."""
    import numpy

    found = [series for track in tracks if (series := step_seconds(track)) is not None]
    if not found:
        return None
    longest = max(found, key=lambda one: len(one.numbers))
    names = {one.name for one in found}
    if len(found) == 1 or len(names) > 1 or (longest.steps < 0).any():
        return longest
    if any(len(one.steps) != len(longest.steps) or (one.steps != longest.steps).any() for one in found):
        return longest
    return longest._replace(numbers=numpy.median([one.numbers for one in found], axis=0))


def slowdowns(series: Series, tracks: list[Track], marks: Sequence[Mark] = ()) -> list[SeriesFinding]:
    """Every stretch of steps that is slower than the one before it, or a slow climb of the time of a step."""
    numbers = series.numbers
    if len(numbers) < 30:
        return []
    edges = levels(numbers, 1.5 * FALSE_ALARMS)
    if len(edges) == 2:
        climb = _climb(series)
        return [climb] if climb is not None else []
    middles = [float(clipped(numbers[low:high]).mean()) for low, high in pairwise(edges)]
    found: list[SeriesFinding] = []
    index = 1
    while index < len(middles):
        base = min(middles[:index])
        if not base * (1 + SLOWER) <= middles[index] < base * OTHER_WORK:
            index += 1
            continue
        end = index
        while end + 1 < len(middles) and middles[end + 1] >= base * (1 + SLOWER):
            end += 1
        if not more_work(series, tracks, edges[index - 1], edges[index], edges[end + 1]):
            found.append(_stretch(series, tracks, base, edges[index], edges[end + 1], edges[index - 1]))
        index = end + 1
    return [_with_phase(one, series, marks) for one in found]


def _with_phase(finding: SeriesFinding, series: Series, marks: Sequence[Mark]) -> SeriesFinding:
    """A slowdown with the phase that other lines tell, or with the words that none does."""
    import msgspec
    import numpy

    if finding.phase is not None:
        return finding
    low = int(finding.values["at"] or 0)
    length = int(finding.values["length"] or 0)
    short = length <= 0.25 * len(series.numbers)
    phase = phase_by_marks(series, numpy.arange(low, low + length), marks) if short else None
    told = f"; these are steps of {phase}" if phase is not None else f"; {UNTOLD}"
    return msgspec.structs.replace(finding, phase=phase, text=finding.text + told)


def _stretch(series: Series, tracks: list[Track], base: float, low: int, high: int, before: int) -> SeriesFinding:
    """One stretch of slower steps, from ``low`` up to ``high``; ``before`` is where the stretch before it began."""
    import numpy

    numbers = series.numbers
    slow = float(numpy.median(numbers[low:high]))
    last = high == len(numbers)
    step, end = series.step(low), series.step(high - 1)
    what = "the time of a step" if series.name == "seconds" else f"the time of a step (from {series.name})"
    change = (
        f"{format_duration(base)} to {format_duration(slow)}"
        if series.name == "seconds"
        else f"{number(1 / base)} to {number(1 / slow)}"
    )
    rose = f"{what} {grew(slow / base)} ({change}) {series.place(low)}"
    phase, detail, alone = _phase(series, tracks, before, low, high)
    return SeriesFinding(
        kind="slowdown",
        series=series.name,
        text=rose + (" and stayed so" if last else f" until {series.place(high - 1)[3:]}") + detail,
        first_step=step,
        last_step=end,
        phase=phase,
        false_alarms=FALSE_ALARMS,
        values={
            "before": base,
            "after": slow,
            "ratio": slow / base,
            "lasts": last,
            "at": low,
            "length": high - low,
            "values": len(numbers),
            **({"alone": alone} if alone is not None else {}),
        },
        quote=quote_of(series.lines[low], series.name),
    )


def _climb(series: Series) -> SeriesFinding | None:
    """The time of a step grows little by little."""
    import numpy

    numbers = clipped(series.numbers)
    along: Any = numpy.arange(len(numbers), dtype=float)
    slope = slope_of(along, numbers, 3.0)
    level = float(numpy.median(numbers))
    if slope is None or slope.low <= 0 or slope.z < 5.0 or slope.value * len(numbers) < 0.05 * level:
        return None
    grown = slope.value * len(numbers) / level
    return SeriesFinding(
        kind="slowdown",
        series=series.name,
        text=f"the time of a step {grew(1 + grown)}: little by little, over {len(numbers):,} steps",
        first_step=series.step(0),
        last_step=series.step(len(numbers) - 1),
        false_alarms=FALSE_ALARMS,
        values={"ratio": 1 + grown, "gradual": True, "at": 0, "values": len(numbers)},
        quote=quote_of(series.lines[-1]),
    )


def _phase(series: Series, tracks: list[Track], before: int, low: int, high: int) -> tuple[str | None, str, int | None]:
    """Which phase took most of the added time, in words, and on which rank alone; None where no phase took half of it."""
    first, cut, last = (series.steps[i] for i in (before, low, high - 1))
    if first < 0:
        return None, "", None
    grown: dict[str, dict[int, float]] = {}
    for index, track in enumerate(tracks):
        for name, phase in PHASES.items():
            change = _change(track, name, int(first), int(cut), int(last))
            if change is not None:
                grown.setdefault(phase, {})[index] = grown.get(phase, {}).get(index, 0.0) + change
    if not grown:
        return None, "", None
    # Ranks wait for each other: one that computes longer makes the others communicate longer, so what is not waiting counts first.
    own = {phase: max(by.values()) for phase, by in grown.items() if phase != "communication"}
    total = max([*own.values(), *grown.get("communication", {0: 0.0}).values()])
    if total <= 0:
        return None, "", None
    if own and (phase := max(own, key=lambda one: own[one])) and own[phase] >= 0.5 * total:
        by = grown[phase]
        index = max(by, key=lambda one: by[one])
        others = [change for one, change in by.items() if one != index]
        alone = tracks[index].rank if others and max(others) < 0.5 * by[index] else None
        told = f"; {phase} took {format_duration(by[index])} more"
        return phase, told if alone is None else f"{told}, on rank {alone} alone", alone
    by = grown.get("communication", {})
    if by and max(by.values()) >= 0.5 * total:
        least = format_duration(min(by.values()))
        return "communication", f"; communication took {least} more or longer on every rank", None
    return None, "", None


def _change(track: Track, name: str, first: int, cut: int, last: int) -> float | None:
    """By how much the mean of a phase grew from the steps before to the steps after."""
    import numpy

    at, numbers = track.points(name)
    good = (numbers >= 0) & (numbers < HUGE)
    at, numbers = at[good], numbers[good]
    if len(at) < 8:
        return None
    steps = track.steps[at]
    old = numbers[(steps >= first) & (steps < cut)]
    new = numbers[(steps >= cut) & (steps <= last)]
    if len(old) < 4 or len(new) < 4:
        return None
    grown = float(numpy.mean(clipped(new))) - float(numpy.mean(clipped(old)))
    noise = float(numpy.std(clipped(old)) / len(old) ** 0.5 + numpy.std(clipped(new)) / len(new) ** 0.5)
    return grown if grown > 3 * noise else 0.0


def lagging(tracks: list[Track]) -> list[SeriesFinding]:
    """Ranks whose steps became slower than those of the others, from some step on."""
    import numpy

    table = aligned(tracks)
    if table is None or len(table[1]) < 3:
        return []
    steps, rows, owners = table
    middle = numpy.median(rows, axis=0)
    found = []
    for row, track in zip(rows, owners, strict=True):
        relative = numpy.log(row / middle)
        shift = find_shift(relative)
        if shift is None or shift.p * len(rows) > FALSE_ALARMS:
            continue
        old, new = float(numpy.median(relative[: shift.at])), float(numpy.median(relative[shift.at :]))
        if new - old < SLOWER or new < SLOWER:
            continue
        ratio = float(numpy.exp(new - old))
        found.append(
            SeriesFinding(
                kind="slowdown",
                series="seconds",
                text=f"the steps of rank {track.rank} take {longer_than(ratio)} those of the others from step {int(steps[shift.at]):,} on",
                first_step=int(steps[shift.at]),
                last_step=int(steps[-1]),
                ranks=(track.rank,) if track.rank is not None else (),
                false_alarms=FALSE_ALARMS,
                values={"ratio": ratio, "at": shift.at, "values": len(steps), "against": "other ranks"},
            )
        )
    return found


def aligned(
    tracks: list[Track], names: tuple[str, ...] = (), fewest: int = FEWEST
) -> tuple[Any, Any, list[Track]] | None:
    """The time of each step on each rank, for the steps that all of them tell: steps, a row for each rank, the ranks.

    ``names`` are values that are added up; none: the time of the whole step. With fewer steps than ``fewest`` there is no table.
    Where some are nought, as they were printed, a few units of the last digit are as little as nought.
    """
    import numpy

    series: list[tuple[Track, Any, Any]] = []
    for track in tracks:
        if track.rank is None:
            continue
        got = _summed(track, names) if names else _whole(track)
        if got is not None and len(got[0]) >= fewest:
            series.append((track, *got))
    if len(series) < 2:
        return None
    # A rank that ended early leaves the steps that it does not tell to nobody.
    most = sorted(len(steps) for _, steps, _ in series)[len(series) // 2]
    series = [one for one in series if len(one[1]) >= 0.5 * most]
    common = series[0][1]
    for _, steps, _ in series[1:]:
        common = numpy.intersect1d(common, steps, assume_unique=True)
    if len(series) < 2 or len(common) < fewest:
        return None
    rows = numpy.stack([numbers[numpy.searchsorted(steps, common)] for _, steps, numbers in series])
    if (rows <= 0).any():
        rows = numpy.maximum(rows, UNITS * rows[rows > 0].min()) if (rows > 0).any() else numpy.ones_like(rows)
    return common, rows, [track for track, _, _ in series]


def _whole(track: Track) -> tuple[Any, Any] | None:
    series = step_seconds(track)
    if series is None or (series.steps < 0).any():
        return None
    good = series.numbers > TINY
    return _last(series.steps[good], series.numbers[good])


def _summed(track: Track, names: tuple[str, ...]) -> tuple[Any, Any] | None:
    import numpy

    present = [points for name in names if len((points := track.points(name)).at)]
    if not present:
        return None
    at = present[0].at
    for points in present[1:]:
        at = numpy.intersect1d(at, points.at, assume_unique=True)
    total = sum(points.numbers[numpy.searchsorted(points.at, at)] for points in present)
    # A step without a checkpoint takes no time for one; of what is done at each step nought is little, and was rounded.
    some = total > TINY if "checkpoint_seconds" in names else total >= 0
    good = (track.steps[at] >= 0) & some & (total < HUGE)
    return _last(track.steps[at][good], total[good])


def _last(steps: Any, numbers: Any) -> tuple[Any, Any]:
    import numpy

    if len(steps) and (numpy.diff(steps) <= 0).any():
        _, last = numpy.unique(steps[::-1], return_index=True)
        chosen = len(steps) - 1 - last
        return steps[chosen], numbers[chosen]
    return steps, numbers
