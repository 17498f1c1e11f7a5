"""A watched run as the page draws it: alarms, a map of broken examples by rank and step, and curves."""

from __future__ import annotations

from collections import Counter
from typing import Any

from preflight.report.parts.alarm_text import MOST_NAMES, details, groups, often, where
from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.options import Options
from preflight.report.parts.snippet import snippet
from preflight.report.pictures.axis import step_ticks
from preflight.report.pictures.heatmap import heatmap
from preflight.vocabulary.invariant import Violation
from preflight.vocabulary.quantity import format_bytes
from preflight.vocabulary.report import Report
from preflight.vocabulary.watched import Series, Watched

WIDTH, HEIGHT = 1000.0, 100.0
"""The box in which curves are drawn; it is stretched to the room there is."""
MOST_CURVES = 24
_KINDS = {"error": "Error", "warning": "Warning", "info": "Note"}


def watched_view(report: Report, options: Options) -> dict[str, Any] | None:
    """Return everything that the page shows of a watched run; None where the report is not of one."""
    if report.watched is None and not report.violations:
        return None
    watched = report.watched or Watched()
    starts = sorted({root.first_step for root in report.alarms})
    chosen = _chosen(watched.series)
    last = max([watched.steps - 1, 1.0, *(place for one in chosen for place in _apart(one.steps))])
    return {
        "alarms": [
            alarm_view(number, group, report, options) for number, group in enumerate(groups(report.violations), 1)
        ],
        "map": _map(watched),
        "curves": [_curve(series, starts, last) for series in chosen],
        "axis": _axis(last, bool(starts)),
        "curves_left": max(len(watched.series) - MOST_CURVES, 0),
    }


def alarm_view(number: int, group: list[Violation], report: Report, options: Options) -> dict[str, Any]:
    """Return an alarm as a page shows it: violations of one cause, the root first."""
    root = group[0]
    severity = next(one.severity for one in report.alarms if one.group == root.group)
    return {
        "index": number,
        "severity": severity,
        "kind": _KINDS[severity],
        "message": one_line(root.message),
        "place": f"{where(root)} · {clean(root.relation)}{often(root)}",
        "snippet": [
            {"no": f"{line.number:>4}", "here": line.width > 0, "text": line.text}
            for line in snippet(root.location, options.sources, around=2)
        ],
        "details": details(root),
        "every": [clean(name) for name in root.variables] if len(root.variables) > MOST_NAMES else [],
        "others": [f"{one_line(one.message)} ({where(one)}, {clean(one.relation)})" for one in group[1:]],
    }


def _map(watched: Watched) -> dict[str, Any] | None:
    """Return the map: a row for each rank, a column for each step or span of steps."""
    if not watched.marks:
        return None
    total = max(watched.steps, max(mark.step for mark in watched.marks) + watched.mark_width)
    found = heatmap(
        ((mark.rank, float(mark.step), mark.count) for mark in watched.marks),
        ranks=watched.ranks,
        first=0.0,
        last=float(total),
        width=float(watched.mark_width),
        ticks=[
            {**tick, "name": f"step {tick['name']}" if not tick["at"] else tick["name"]}
            for tick in step_ticks(total, 6)
        ],
        title=lambda rank, step, count: f"rank {rank}, {_span(int(step), watched.mark_width)}: {count} broken",
    )
    rows = [(f"rank {mark.rank}", _span(mark.step, watched.mark_width), str(mark.count)) for mark in watched.marks]
    return found and {**found, "unit": "steps", "table": rows}


def _span(step: int, width: int) -> str:
    return f"step {step}" if width == 1 else f"steps {step} to {step + width - 1}"


def _chosen(series: tuple[Series, ...]) -> list[Series]:
    order = {"loss": 0, "gradient norm": 1, "learning rate": 2, "step time": 3}
    return sorted(series, key=lambda one: (order.get(one.name, 9), one.rank, one.subject))[:MOST_CURVES]


def _curve(series: Series, starts: list[int], last: float) -> dict[str, Any]:
    """Return a curve as polylines in the box, from step 0 to the last, broken where a value is not finite."""
    finite = [value for value in series.values if value is not None]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    span = high - low
    lines: list[str] = []
    dots: list[str] = []
    points: list[str] = []
    for step, value in [*zip(_apart(series.steps), series.values, strict=True), (0, None)]:
        if value is not None:
            share = (value - low) / span if span else 0.5  # what never changes lies in the middle
            points.append(f"{step / last * WIDTH:.1f},{HEIGHT - share * (HEIGHT - 8) - 4:.1f}")
        elif points:
            # A value between two that are missing is a line of no length, which is drawn as a dot.
            (lines if len(points) > 1 else dots).append(" ".join(points * 2 if len(points) == 1 else points))
            points = []
    missing = len(series.values) - len(finite)
    subject = f" of {clean(series.subject)}" if series.subject else ""
    return {
        "name": f"{clean(series.name)}{subject}, rank {series.rank}",
        "lines": lines,
        "dots": dots,
        "from_to": f"{_value(low, series.unit)} to {_value(high, series.unit)}" if span else _value(low, series.unit),
        "missing": missing,
        "marks": [{"x": round(start / last * WIDTH, 1), "name": f"alarm at step {start}"} for start in starts],
    }


def _axis(last: float, alarms: bool) -> str:
    """Return what the curves have in common: from where to where they go, and what their marks are."""
    return f"From left to right: step 0 to {int(last):,}." + (" Dashed: where an alarm began." if alarms else "")


def _apart(steps: tuple[int, ...]) -> list[float]:
    """Return where the values stand: several of one step, as with accumulation, lie beside each other up to the next."""
    counts = Counter(steps)
    seen: Counter[int] = Counter()
    places = []
    for step in steps:
        places.append(step + seen[step] / counts[step])
        seen[step] += 1
    return places


def _value(value: float, unit: str | None) -> str:
    if unit == "B":
        return format_bytes(value)
    return f"{value:.4g} {unit}" if unit else f"{value:.4g}"
