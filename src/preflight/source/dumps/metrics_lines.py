"""Metrics as JSON lines: one object of numbers for each step."""

from __future__ import annotations

import json
from typing import Any

from preflight.source.dumps.metric_names import number_of, row, telling
from preflight.source.dumps.part import Part
from preflight.vocabulary.log import LogFile, LogKind, StepLine

KIND: LogKind = "metrics"
_SPOKEN = {"message", "msg", "level", "levelname", "severity", "event", "log", "kind", "type"}
"""Objects with these are a log that is written as JSON, or events, and not a table of numbers."""
_CONSOLE = 3
"""Lines of words between the objects from which a file is what a program printed: of a table, one or two may be cut."""


def looks_like(name: str, head: bytes) -> bool:
    """The first lines are objects with numbers under names of a training."""
    lines = [line for line in head.split(b"\n")[:4] if line.strip()]
    if not lines or not lines[0].lstrip(b"\xef\xbb\xbf \t").startswith(b"{"):
        return False
    rows = []
    for line in lines:
        found = _flat(line)
        if found is None:
            break
        rows.append(found)
    return (
        bool(rows)
        and all(not _SPOKEN & found.keys() for found in rows)
        and any(telling(_numeric(found)) for found in rows)
    )


def read(content: bytes, file: LogFile) -> Part:
    """Read every object that has a number; where a program printed other lines between them, it is a log."""
    steps: list[StepLine] = []
    broken = words = 0
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        cells = _flat(line)
        if cells is None:
            broken += 1
            words += not line.lstrip().startswith((b"{", b'"', b"}")) and not line.rstrip().endswith(b"}")
            continue
        found = row(file, number, cells)
        if found is not None:
            steps.append(found)
    if words >= _CONSOLE:
        return Part(kind="text")
    times = [one.time for one in steps if one.time is not None]
    return Part(
        lines=len(lines) - (not lines[-1]),
        steps=tuple(steps),
        first_time=min(times, default=None),
        last_time=max(times, default=None),
        problem=f"{broken} lines are no JSON objects" if broken else None,
    )


def _flat(line: bytes) -> dict[str, Any] | None:
    """An object with the objects in it spread out, ``train/loss`` for ``{"train": {"loss": ...}}``."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    cells: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, dict):
            cells.update({f"{name}/{inner}": cell for inner, cell in value.items()})
        else:
            cells[name] = value
    return cells


def _numeric(cells: dict[str, Any]) -> list[str]:
    return [name for name, cell in cells.items() if number_of(cell) is not None]
