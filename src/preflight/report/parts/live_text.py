"""What was seen of a running job and of the machine under it, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.paint import Canvas
from preflight.vocabulary.live import Measurement, RankPulse
from preflight.vocabulary.quantity import format_bytes, format_seconds
from preflight.vocabulary.report import Report

MOST_ROWS = 40
"""So many rows of a table are shown without --verbose."""
MOST_LOST = 16
"""So many ranks that are lost are shown without --verbose."""
MANY_RANKS = 3
"""From so many on, ranks that measured the same share a row."""


def live_sections(canvas: Canvas, report: Report, *, verbose: bool) -> None:
    """Add ranks, measurements and differences."""
    if report.pulses:
        _pulses(canvas, report, verbose=verbose)
    if report.measurements:
        _measurements(canvas, report.measurements, verbose=verbose)
    if report.differences:
        _differences(canvas, report, verbose=verbose)


def _pulses(canvas: Canvas, report: Report, *, verbose: bool) -> None:
    lost = [pulse for pulse in report.pulses if pulse.lost]
    canvas.heading("RANKS", how_many_live(report.pulses))
    shown = report.pulses if verbose else lost[:MOST_LOST]
    for pulse in shown:
        where = f"{clean(pulse.node)}:{pulse.pid}" if pulse.node and pulse.pid else ""
        step = f"step {pulse.step}" if pulse.step is not None else ""
        said = ", ".join(part for part in (where, step, one_line(pulse.reason)) if part)
        canvas.write(said, indent=2, first=f"rank {pulse.rank:<4} {pulse.state:<8}  ")
    if not verbose and len(shown) < len(lost):
        canvas.write(f"{len(lost) - len(shown)} more with {canvas.rest}", indent=2)


def how_many_live(pulses: Sequence[RankPulse]) -> str:
    """Return how many ranks live, and how many of them make no step."""
    alive, stalled = sum(one.lives for one in pulses), sum(one.state == "stalled" for one in pulses)
    return f"{alive} of {len(pulses)} live" + (f", {stalled} of them without a step" if stalled else "")


def _measurements(canvas: Canvas, measured: tuple[Measurement, ...], *, verbose: bool) -> None:
    canvas.heading("MEASUREMENTS", "medians, with intervals of 95 %")
    several = len({one.rank for one in measured if one.rank is not None}) > 1
    rows = list(_rows(measured, several, each=verbose))
    shown = rows if verbose else rows[:MOST_ROWS]
    width = min(max(len(name) for name, _ in shown), 44)
    for name, said in shown:
        canvas.write(said, indent=2, first=f"{clean(name):<{width}}  ")
    if len(shown) < len(rows):
        canvas.write(f"{len(rows) - len(shown)} more with {canvas.rest}", indent=2)
    elif len(rows) < len(measured):
        canvas.write(f"of each rank with {canvas.rest}", indent=2)


def _rows(measured: Iterable[Measurement], several: bool, *, each: bool) -> Iterator[tuple[str, str]]:
    """Yield a name and what it says: of what many ranks measured one row, unless each of them is wanted."""
    alike: dict[tuple[str, str, str], list[Measurement]] = {}
    for number, one in enumerate(measured):
        plain = not each and one.rank is not None and one.value is not None and one.outcome == "done" and not one.reason
        alike.setdefault((one.probe, one.name, "" if plain else str(number)), []).append(one)
    for (probe, name, _), same in alike.items():
        if len(same) >= MANY_RANKS:
            yield f"{probe}: {name}", _over_ranks(same)
            continue
        for one in same:
            yield f"{probe}: {name}" + (f", rank {one.rank}" if several else ""), measured_text(one)


def _over_ranks(same: Sequence[Measurement]) -> str:
    """Return the middle of what ranks measured, and who lies at the ends."""
    by_value = sorted((one.value or 0.0, one.rank or 0) for one in same)
    (low, first), (high, last) = by_value[0], by_value[-1]
    unit = same[0].unit
    ends = f"{in_unit(low, unit)} on rank {first} to {in_unit(high, unit)} on rank {last}"
    return f"{in_unit(median(value for value, _ in by_value), unit)} on {len(same)} ranks ({ends})"


def measured_text(one: Measurement) -> str:
    """Return a measurement in words: ``12.3 ms (12.1 to 12.9 ms, 20 repeats)``."""
    if one.value is None or one.outcome != "done":
        return f"{one.outcome}: {one_line(one.reason or '')}".rstrip(": ")
    said = in_unit(one.value, one.unit)
    if one.low is not None and one.high is not None:
        said += f" ({in_unit(one.low, one.unit)} to {in_unit(one.high, one.unit)}, {one.repeats} repeats)"
    return said + (f"; {one_line(one.reason)}" if one.reason else "")


def in_unit(value: float, unit: str) -> str:
    """Return a value with its unit, in the size that people read."""
    if unit == "s":
        return format_seconds(value)
    if unit == "byte/s":
        return f"{value / 1e9:.3g} GB/s" if value >= 1e9 else f"{value / 1e6:.3g} MB/s"
    if unit == "FLOP/s":
        return f"{value / 1e12:.3g} TFLOP/s" if value >= 1e12 else f"{value / 1e9:.3g} GFLOP/s"
    if unit == "byte":
        return format_bytes(value)
    return f"{value:.4g} {unit}".rstrip()


def _differences(canvas: Canvas, report: Report, *, verbose: bool) -> None:
    """List what differs and is no finding of its own."""
    rest = [one for one in report.differences if one.weight == "info" or verbose]
    if not rest:
        return
    canvas.heading("ALSO DIFFERENT", "rarely the cause")
    shown = rest if verbose else rest[:MOST_ROWS]
    width = min(max(len(one.key) for one in shown), 32)
    for one in shown:
        others = "; ".join(f"{clean(value)} on {_ranks(ranks)}" for value, ranks in one.unusual.items())
        first = f"{clean(one.key):<{width}}  "
        canvas.write(f"{clean(one.usual)} on {one.usual_ranks}, {others}", indent=2, first=first)


def _ranks(ranks: Iterable[int]) -> str:
    listed = list(ranks)
    said = ", ".join(map(str, listed[:8]))
    return f"rank{'s' if len(listed) > 1 else ''} {said}" + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")
