"""Metrics as comma-separated values: loggers of Lightning and Keras, exports of experiment trackers, one's own."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Sequence

from preflight.source.dumps.metric_names import MOST, number_of, row, telling
from preflight.source.dumps.part import Part
from preflight.vocabulary.log import LogFile, LogKind

KIND: LogKind = "metrics"
_SEPARATORS = b",;\t"


def looks_like(name: str, head: bytes) -> bool:
    """A first line of names of which some are those of a training, and a second one with a number in it."""
    lines = head.split(b"\n", 3)
    if len(lines) < 2 or len(lines[0]) > 4000 or not name.lower().endswith((".csv", ".tsv", ".txt", ".log")):
        return False
    separator = _separator(lines[0])
    if separator is None or b"{" in lines[0] or b"[" in lines[0].replace(b"\xef\xbb\xbf", b""):
        return False
    names = _names(lines[0], separator)
    if any(number_of(one) is not None for one in names) or not telling(names):
        return False
    cells = lines[1].decode("utf-8", "replace").strip().split(separator)
    whole = len(lines) > 2
    return any(number_of(one.strip().strip('"')) is not None for one in cells) and (
        not whole or abs(len(cells) - len(names)) <= 1
    )


def read(content: bytes, file: LogFile) -> Part:
    """Read every row that has a number; of very many of them steps are kept evenly, and the last ones."""
    from preflight.source.logs.sampling import TAIL, Sample

    text = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", "replace", newline="\n")
    separator = _separator(content.split(b"\n", 1)[0]) or ","
    rows = csv.reader((line.replace("\0", "") for line in text), delimiter=separator)
    names = [one.strip() for one in next(rows, [])]
    sample = Sample(MOST)
    passed: deque[tuple[int, list[str]]] = deque(maxlen=TAIL)
    odd = 0
    for cells in rows:
        if len(cells) > len(names) + 1 or not cells:
            odd += bool(cells)
        elif not sample.wants(0, 0):
            passed.append((rows.line_num, cells))
        elif (found := row(file, rows.line_num, _named(names, cells))) is not None:
            sample.add(found)
    for line, cells in passed:
        if (found := row(file, line, _named(names, cells))) is not None:
            sample.add_last(found)
    steps = sample.kept()
    times = [one.time for one in steps if one.time is not None]
    return Part(
        lines=rows.line_num,
        steps=tuple(steps),
        first_time=min(times, default=None),
        last_time=max(times, default=None),
        problem=f"{odd} rows have more cells than there are names" if odd else None,
    )


def _named(names: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    return {name: cell.strip() for name, cell in zip(names, cells, strict=False) if cell.strip()}


def _separator(line: bytes) -> str | None:
    count, byte = max((line.count(one), one) for one in _SEPARATORS)
    return chr(byte) if count else None


def _names(line: bytes, separator: str) -> list[str]:
    text = line.decode("utf-8-sig", "replace").strip()
    return [one.strip().strip('"') for one in text.split(separator)]
