"""What changed between two reports, as rows that several formats show."""

from __future__ import annotations

from typing import NamedTuple

from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.sentences import named, number, place
from preflight.vocabulary.comparison import Aspect, Change, Comparison, Side
from preflight.vocabulary.finding import Finding, Scalar
from preflight.vocabulary.quantity import format_bytes, format_duration, format_seconds

TITLES: dict[Aspect, str] = {
    "incident": "What happened", "memory": "Memory of one GPU", "time": "Time", "cost": "Cost", "score": "Scores",
    "layout": "Layout", "setting": "What is trained, and how",
}  # fmt: skip
_NONE = "none"


class ChangeRow(NamedTuple):
    """A change in words; ``tone`` is ``better``, ``worse`` or empty."""

    name: str
    before: str
    after: str
    change: str
    tone: str


def change_rows(found: Comparison, aspect: Aspect) -> list[ChangeRow]:
    """Return what changed in one aspect."""
    return [_row(change) for change in found.changes if change.aspect == aspect]


def _row(change: Change) -> ChangeRow:
    ratio = change.ratio
    said = tone = ""
    if ratio is not None and change.better is not None:
        tone = "worse" if change.worse else "better"
        said = "" if change.unit in ("share", "%") else by_how_much(ratio)
    elif change.worse:
        tone = "worse"  # from nothing, which no factor tells
    elif ratio is not None and ratio > 0:
        said = by_how_much(ratio) if ratio > 0.5 else f"1/{_factor(1 / ratio)}"
    before, after = _shown(change.before, change.unit), _shown(change.after, change.unit)
    return ChangeRow(one_line(change.name), before, after, said, tone)


def by_how_much(ratio: float) -> str:
    """Return how much more or less it is."""
    return f"{(ratio - 1) * 100:+.1f} %" if ratio < 2 else f"{_factor(ratio)} times"


def _factor(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _shown(value: Scalar, unit: str | None) -> str:
    if value is None:
        return _NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return one_line(value)
    if unit == "bytes":
        return format_bytes(value)
    if unit == "s":
        return format_seconds(value) if value < 600 else format_duration(value)
    if unit == "share":
        return f"{value * 100:.1f} %"
    if unit == "USD":
        return f"${value:,.0f}"
    shown = f"{value:,.0f}" if abs(value) >= 1000 else number(value)
    return shown + ("" if not unit else clean(unit) if unit[0] == "/" else f" {clean(unit)}")


def sides(found: Comparison) -> list[tuple[str, str, str, str]]:
    """Return (which, verdict, command, name) of both."""
    both = (("before", found.before), ("after", found.after))
    return [(which, one.verdict, f"preflight {one.command}", _name(one)) for which, one in both]


def _name(side: Side) -> str:
    return clean(side.name)


def gone_rows(found: Comparison) -> list[tuple[str, str, str]]:
    """Return (rule, place, message) of findings and alarms that only the first side has."""
    every: tuple[Finding, ...] = (*found.gone, *found.gone_violations)
    return [(named(one), place(one.location), one_line(one.message)) for one in every]
