"""Metrics as JSON lines: one object of numbers for each step."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import msgspec

from preflight.source.dumps.metric_names import MOST, number_of, row, telling
from preflight.source.dumps.part import Part
from preflight.vocabulary.log import LogFile, LogKind

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
    rows = Rows(file, MOST)
    rows.take(content)
    return rows.part()


class Rows:
    """The objects of a file, line by line; of very many of them steps are kept evenly, and the last ones."""

    def __init__(self, file: LogFile, most: int) -> None:
        """Begin with none; about ``most`` steps are kept."""
        from preflight.source.logs.sampling import TAIL, Sample

        self._file = file
        self._sample = Sample(most)
        self._passed: deque[tuple[int, bytes]] = deque(maxlen=TAIL)
        self._left = b""
        self._lines = self._broken = self._words = 0

    @property
    def of_a_console(self) -> bool:
        """Whether a program printed other lines between the objects."""
        return self._words >= _CONSOLE

    def take(self, content: bytes) -> None:
        """Read what comes next; a line that is not whole yet is read with what comes behind it."""
        lines = (self._left + content).split(b"\n")
        self._left = lines.pop()
        for line in lines:
            self._line(line)

    def part(self) -> Part:
        """Return what was read, to the end."""
        if self._left:
            self._line(self._left)
            self._left = b""
        if self.of_a_console:
            return Part(kind="text")
        for number, line in self._passed:
            cells = _flat(line)
            if cells is not None and (step := row(self._file, number, cells)) is not None:
                self._sample.add_last(step)
        steps = self._sample.kept()
        times = [one.time for one in steps if one.time is not None]
        return Part(
            lines=self._lines,
            steps=tuple(steps),
            first_time=min(times, default=None),
            last_time=max(times, default=None),
            problem=f"{self._broken} lines are no JSON objects" if self._broken else None,
        )

    def _line(self, line: bytes) -> None:
        self._lines += 1
        if not line.strip():
            return
        if not self._sample.wants(0, 0):
            self._passed.append((self._lines, line))
            return
        cells = _flat(line)
        if cells is None:
            self._broken += 1
            self._words += not line.lstrip().startswith((b"{", b'"', b"}")) and not line.rstrip().endswith(b"}")
            return
        found = row(self._file, self._lines, cells)
        if found is not None:
            self._sample.add(found)


def _flat(line: bytes) -> dict[str, Any] | None:
    """An object with the objects in it spread out, ``train/loss`` for ``{"train": {"loss": ...}}``."""
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        found = _decoded(line)
    if not isinstance(found, dict):
        return None
    if dict not in map(type, found.values()):
        return found
    cells: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, dict):
            cells.update({f"{name}/{inner}": cell for inner, cell in value.items()})
        else:
            cells[name] = value
    return cells


def _decoded(line: bytes) -> Any:
    """Return what Python itself reads, which also knows ``NaN`` and ``Infinity``; None where it reads nothing."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _numeric(cells: dict[str, Any]) -> list[str]:
    return [name for name, cell in cells.items() if number_of(cell) is not None]
