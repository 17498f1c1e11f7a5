"""The life of a run: what was checked, planned, watched and investigated, and what of it was foretold and seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from preflight.compare.values import STEP, watched_values
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.memory import TOTALS
from preflight.vocabulary.quantity import Interval
from preflight.vocabulary.report import (
    SCHEMA,
    VERDICT_ORDER,
    Figure,
    Life,
    Report,
    Stage,
    Told,
    Tool,
    Verdict,
)
from preflight.vocabulary.version import VERSION

_OUTCOMES = ("investigate", "investigate why", "investigate report", "investigate verify", "investigate hang")
"""Commands that answer the same question, whether a run failed: the newest of them counts."""


def life_of(folder: str, stages: Sequence[Stage], notes: Sequence[str] = ()) -> Report:
    """Put the reports of a run together.

    Args:
        folder: The folder that they are in, as it is shown.
        stages: The reports, in the order in which they were made.
        notes: What could not be read.

    Returns:
        A report with ``life``. Its verdict, findings and violations are those of the newest report of each kind: a check
        that is GO by now takes the place of one that was not. A rehearsal, whose faults were made on purpose, decides
        nothing.
    """
    newest = {_kind(stage.report): stage.number for stage in stages if not stage.report.rehearsed}
    marked = tuple(msgspec.structs.replace(one, latest=one.number in newest.values()) for one in stages)
    latest = [stage.report for stage in marked if stage.latest]
    findings: list[Finding] = [finding for report in latest for finding in report.findings]
    return Report(
        schema=SCHEMA, command="report", tool=Tool("preflight", VERSION), verdict=_verdict(latest),
        inputs={"subject": folder}, findings=tuple(findings),
        violations=tuple(one for report in latest for one in report.violations),
        life=Life(folder=folder, stages=marked, figures=_figures(marked)), notes=tuple(notes),
    )  # fmt: skip


def _kind(report: Report) -> str:
    """What a report is one of: the newest of a kind takes the place of the others."""
    if report.command in _OUTCOMES:
        return "outcome"
    return "monitor" if report.command.startswith("monitor") else _teller(report)


def _teller(report: Report) -> str:
    """The command, and whether it ran the script: what was read and what a dry run saw stand beside each other."""
    ran = report.memory is not None and report.memory.method == "dry-run"
    return f"{report.command} (dry run)" if ran else report.command


def _verdict(latest: Sequence[Report]) -> Verdict:
    return min((report.verdict for report in latest), key=lambda one: VERDICT_ORDER[one], default="UNKNOWN")


def _figures(stages: Sequence[Stage]) -> tuple[Figure, ...]:
    """Memory and step time by everyone who tells them; what only one report tells stands in that report."""
    told: dict[str, list[Told]] = {}
    units: dict[str, str] = {}
    for stage in stages:
        if stage.latest:
            for name, unit, one in _told(stage.report):
                told.setdefault(name, []).append(one)
                units[name] = unit
    return tuple(Figure(name=name, unit=units[name], told=tuple(by)) for name, by in told.items() if len(by) > 1)


def _told(report: Report) -> Iterator[tuple[str, str, Told]]:
    """Yield (name, unit, by whom) of what a report says of memory and step time."""
    teller = _teller(report)
    for field, name in TOTALS.items():
        interval: Interval | None = getattr(report.memory, field) if report.memory is not None else None
        if interval is not None:
            yield name, "bytes", Told(command=teller, value=interval.mid, low=interval.low, high=interval.high)
    seconds: Any = (report.step or {}).get("seconds")
    if isinstance(seconds, dict) and isinstance(seconds.get("mid"), (int, float)):
        low, high = seconds.get("low"), seconds.get("high")
        yield "step", "s", Told(command=teller, value=float(seconds["mid"]), low=low, high=high)
    for one in watched_values(report):
        if one.name in TOTALS.values() and isinstance(one.value, int):
            yield one.name, "bytes", Told(command=teller, value=float(one.value), measured=True)
        if one.name == STEP and isinstance(one.value, float):
            yield "step", "s", Told(command=teller, value=one.value, measured=True)
