"""What was seen of a running job and of the machine under it, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.paint import Canvas
from preflight.vocabulary.live import Measurement
from preflight.vocabulary.quantity import format_bytes, format_seconds
from preflight.vocabulary.report import Report

MOST_ROWS = 40
"""So many rows of a table are shown without --verbose."""


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
    canvas.heading("RANKS", f"{len(report.pulses) - len(lost)} of {len(report.pulses)} live")
    for pulse in report.pulses if verbose else lost:
        where = f"{clean(pulse.node)}:{pulse.pid}" if pulse.node and pulse.pid else ""
        step = f"step {pulse.step}" if pulse.step is not None else ""
        said = ", ".join(part for part in (where, step, one_line(pulse.reason)) if part)
        canvas.write(said, indent=2, first=f"rank {pulse.rank:<4} {pulse.state:<8}  ")


def _measurements(canvas: Canvas, measured: tuple[Measurement, ...], *, verbose: bool) -> None:
    canvas.heading("MEASUREMENTS", "medians, with intervals of 95 %")
    ranks = sorted({one.rank for one in measured if one.rank is not None})
    shown = measured if verbose else measured[:MOST_ROWS]
    names = [f"{one.probe}: {one.name}" + (f", rank {one.rank}" if len(ranks) > 1 else "") for one in shown]
    width = min(max(len(name) for name in names), 44)
    for name, one in zip(names, shown, strict=True):
        canvas.write(measured_text(one), indent=2, first=f"{clean(name):<{width}}  ")
    if len(shown) < len(measured):
        canvas.write(f"{len(measured) - len(shown)} more with {canvas.rest}", indent=2)


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
