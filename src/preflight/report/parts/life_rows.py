"""The life of a run as rows that several formats show."""

from __future__ import annotations

import time

from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.comparison_rows import by_how_much
from preflight.report.parts.sentences import advice, counts, subject
from preflight.vocabulary.quantity import format_bytes, format_duration, format_seconds
from preflight.vocabulary.report import Figure, Life, Report, Stage

MOST = 24
"""Of so many reports each has a row; of more, the last ones and the newest of each kind."""


def stage_rows(life: Life) -> list[tuple[str, str, str, str]]:
    """Return (when, verdict, command, what) of the reports, the newest of a kind marked with a star."""
    return [
        (
            when(stage), stage.report.verdict, f"{clean(stage.report.command)}{' *' if stage.latest else ''}",
            told_by(stage.report),
        )
        for stage in _shown_stages(life)
    ]  # fmt: skip


def left_out(life: Life) -> int:
    """Return how many reports have no row."""
    return len(life.stages) - len(_shown_stages(life))


def _shown_stages(life: Life) -> list[Stage]:
    early = len(life.stages) - MOST
    return [stage for at, stage in enumerate(life.stages) if at >= early or stage.latest]


def when(stage: Stage) -> str:
    """Return the minute in which a report was made, UTC."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(stage.time))


def told_by(report: Report) -> str:
    """Return what a report is about, and what it says in short."""
    counted = "" if report.plan is not None or report.incident is not None else counts(report)
    said = "; ".join(text for text in (counted, advice(report)) if text)
    about = subject(report)
    if report.rehearsed:
        about = f"rehearsal, {one_line(', '.join(report.rehearsed))} injected: {about}"
    return f"{about}: {one_line(said)}" if said else about


def figure_rows(life: Life) -> list[tuple[str, tuple[str, ...], str]]:
    """Return (name, by whom with which value, the last over the first) of every figure."""
    return [(one_line(figure.name), _by(figure), _last_over_first(figure)) for figure in life.figures]


def _by(figure: Figure) -> tuple[str, ...]:
    said = []
    for told in figure.told:
        ends = ""
        if told.low is not None and told.high is not None and told.low != told.high:
            low, high = _shown(told.low, figure.unit), _shown(told.high, figure.unit)
            same = low.split()[-1] == high.split()[-1]
            ends = f" ({low.split()[0] if same else low} to {high})"
        how = ", measured" if told.measured else ""
        said.append(f"{clean(told.command)}{how}: {_shown(told.value, figure.unit)}{ends}")
    return tuple(said)


def _shown(value: float, unit: str) -> str:
    if unit == "bytes":
        return format_bytes(value)
    return format_seconds(value) if value < 600 else format_duration(value)


def _last_over_first(figure: Figure) -> str:
    first, last = figure.told[0].value, figure.told[-1].value
    if not first or abs(last - first) <= 5e-4 * abs(first):
        return "the same" if first else ""
    return by_how_much(last / first)
