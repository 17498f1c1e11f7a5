"""Rows of the sections that several formats show: inputs, facts, the step, the summary of several scripts."""

from __future__ import annotations

from typing import Any, NamedTuple

from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.sentences import number, of_severity, peak_of, place, quantity, subject
from preflight.vocabulary.quantity import format_bytes, format_count, format_seconds
from preflight.vocabulary.report import Report

_SHOWN_ELSEWHERE = ("path", "paths", "script", "subject")


def input_line(report: Report) -> str:
    """Return the given inputs in one line: ``gpu: h100_sxm, launch: torchrun ...``; empty when there are none."""
    said = []
    device = report.inputs.get("device")
    if device is not None:
        capacity = report.inputs.get("capacity_bytes")
        size = f" ({format_bytes(capacity)})" if isinstance(capacity, int) else ""
        said.append(f"for {one_line(str(device))}{size}")
    for name, value in report.inputs.items():
        if device is not None and name in ("gpu", "capacity_bytes", "device"):
            continue
        if name in _SHOWN_ELSEWHERE or value is None or value in ("", [], {}, ()):
            continue
        if name == "fixed":
            said.append(_fixed(value))
            continue
        if name == "arguments" and isinstance(value, (list, tuple)):
            said.append(f"arguments: {one_line(' '.join(map(str, value)))}")
            continue
        said.append(f"{one_line(name).replace('_', ' ')}: {_plain(value)}")
    return ", ".join(said)


def _fixed(done: Any) -> str:
    """What ``--fix`` did: ``fixed: EFF002 line 41, OPT001 other.py:7 (persists)``."""
    if not isinstance(done, (list, tuple)):
        return f"fixed: {_plain(done)}"
    entries = [entry for entry in done if isinstance(entry, dict)]
    alone = len({entry.get("path") for entry in entries}) == 1
    told = []
    for entry in entries:
        line = entry.get("line")
        at = f"line {number(line)}" if alone else f"{one_line(str(entry.get('path')))}:{number(line)}"
        persists = " (persists)" if entry.get("persists") else ""
        told.append(f"{one_line(str(entry.get('code')))} {at}{persists}")
    return f"fixed: {', '.join(told)}"


class FactRow(NamedTuple):
    """One fact as it is shown."""

    name: str
    value: str
    origin: str
    known: bool


def fact_rows(report: Report, *, whole_paths: bool = True) -> list[FactRow]:
    """Return every fact; a value that is not known gives its reason.

    Args:
        report: The report.
        whole_paths: Whether places name the whole path; else only what differs from the script's own.
    """
    rows = []
    own = subject(report)
    for name, fact in report.facts.items():
        if not whole_paths and (name.endswith(".variable") or _repeats(report, name)):
            continue
        value = (
            _fact_value(name, fact.value) if fact.known else f"not known: {one_line(fact.reason or 'no reason given')}"
        )
        origin = [one_line(fact.how)] if fact.how else []
        if fact.location is not None and place(fact.location):
            at = fact.location
            file = one_line(at.path or "").replace("\\", "/").rpartition("/")[2]
            short = f"line {at.line}" if at.path == own else f"{file}:{at.line}"
            origin.append(place(at) if whole_paths or at.line is None else short)
        rows.append(FactRow(clean(name), value, ", ".join(origin), fact.known))
    return rows


def _repeats(report: Report, name: str) -> bool:
    """Whether a fact only says what another one says: all parameters are trained."""
    total = report.facts.get("model.parameters")
    fact = report.facts[name]
    return name == "model.trainable_parameters" and total is not None and (fact.value == total.value or not fact.known)


def _fact_value(name: str, value: Any) -> str:
    if name.endswith("parameters") and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        return f"{value:,} ({format_count(value)})"
    if name.endswith("_bytes"):
        return quantity(value, "bytes")
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{one_line(key)} {_plain(item)}" for key, item in value.items() if item is not None)
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(item) for item in value) or "none"
    return number(value)


_STEP_NAMES = {
    "seconds": "time", "tokens_per_second_per_gpu": "tokens/s per GPU", "samples_per_second": "samples/s",
    "model_tflops_per_gpu": "TFLOP/s per GPU", "mfu": "MFU", "breakdown": "spent on", "host_bound_share": "host-bound",
}  # fmt: skip


def step_rows(report: Report) -> list[tuple[str, str]]:
    """Return (name, value) of the time of a step, as far as it is known."""
    rows = []
    for name, value in (report.step or {}).items():
        if value is None:
            continue
        if name == "seconds" and isinstance(value, dict):
            shown = (
                f"{format_seconds(value['mid'])} ({format_seconds(value['low'])} to {format_seconds(value['high'])})"
            )
        elif name == "top_operators":
            shown = ", ".join(f"{one_line(p['operator'])} ({p['phase']}) {format_seconds(p['seconds'])}" for p in value)
        elif name == "breakdown" and isinstance(value, dict):
            parts = sorted(((k, v) for k, v in value.items() if v), key=lambda part: -part[1])
            shown = ", ".join(f"{clean(k).replace('_', ' ')} {format_seconds(v)}" for k, v in parts)
        elif name in ("mfu", "host_bound_share") and isinstance(value, (int, float)):
            shown = f"{100 * value:.1f} %"
        elif isinstance(value, float) and value >= 100:
            shown = f"{float(f'{value:.3g}'):,.0f}"
        else:
            shown = _plain(value)
        rows.append((_STEP_NAMES.get(name, clean(name).replace("_", " ")), shown))
    return rows


def holder_rows(report: Report) -> list[tuple[str, str, str]]:
    """Return (bytes, category, where) of the largest holders of memory at the peak that a dry run saw."""
    if report.profile is None or report.memory is None:
        return []
    return [
        (
            format_bytes(holder.bytes),
            holder.category,
            ", ".join(one_line(part) for part in (holder.module, holder.line) if part) or "-",
        )
        for holder in report.profile.holders
    ]


def summary_rows(report: Report) -> list[tuple[str, str, str, str, str]]:
    """Return (verdict, errors, warnings, peak, path) of every script, the worst first, under a row of titles."""
    order = {"NO-GO": 0, "UNKNOWN": 1, "GO": 2}
    rows = [("verdict", "errors", "warnings", "memory", "script")]
    for script in sorted(report.scripts, key=lambda script: (order[script.verdict], subject(script))):
        peak = "-" if script.memory is None else peak_of(script.memory)
        errors, warnings = (str(len(of_severity(script, severity))) for severity in ("error", "warning"))
        rows.append((script.verdict, errors, warnings, peak, subject(script)))
    return rows
