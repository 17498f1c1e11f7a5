"""One metric of an MLflow run: a file below ``metrics/`` with a time in milliseconds, a value and a step in each line."""

from __future__ import annotations

import re

from preflight.source.dumps.metric_names import normal, number_of
from preflight.source.dumps.part import Part
from preflight.vocabulary.log import LogFile, LogKind, StepLine

KIND: LogKind = "metrics"
_LINE = re.compile(rb"\d{13} \S+( \d+)?\r?")


def looks_like(name: str, head: bytes) -> bool:
    """In a folder ``metrics``, with lines of a time, a number and a step."""
    path = "/" + name.replace("\\", "/")
    lines = [line for line in head.split(b"\n")[:3] if line]
    return "/metrics/" in path and bool(lines) and _LINE.fullmatch(lines[0]) is not None


def read(content: bytes, file: LogFile) -> Part:
    """Read every line; the metric is called as the file is."""
    name, factor = normal(("/" + file.path.replace("\\", "/")).rpartition("/metrics/")[2])
    steps = []
    lines = content.decode("utf-8", "replace").splitlines()
    for line, text in enumerate(lines, 1):
        cells = text.split()
        value = number_of(cells[1]) if len(cells) >= 2 else None
        if value is None or not cells[0].isdigit():
            continue
        step = int(cells[2]) if len(cells) > 2 and cells[2].lstrip("-").isdigit() else None
        time = int(cells[0]) / 1000
        steps.append(
            StepLine(file=file.index, line=line, step=step, values={name: value * factor}, who=file.who, time=time)
        )
    times = [one.time for one in steps if one.time is not None]
    return Part(
        lines=len(lines), steps=tuple(steps), first_time=min(times, default=None), last_time=max(times, default=None)
    )
