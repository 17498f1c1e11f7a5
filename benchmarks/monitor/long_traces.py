"""A recording of `gpt.py --steps 100`, and longer traces made of it: what `engine.py` measures with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from preflight.errors import TraceError
from preflight.monitor.collect.columns import ITERATION, TABLES
from preflight.monitor.collect.encode import block, payload
from preflight.monitor.trace.folder import TraceFolder

Tables = dict[str, dict[str, list[Any]]]
FIRST, LAST = 20, 90
"""The iterations that are repeated: after the first ones, which are all recorded in detail and come once."""


def recorded(folder: Path) -> Path:
    """Record the program that is measured with."""
    program = [sys.executable, str(Path(__file__).with_name("gpt.py")), "--steps", "100"]
    command = [sys.executable, "-m", "preflight", "monitor", "collect", "-o", str(folder), "--", *program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"gpt.py could not be recorded:\n{done.stderr}")
    return folder


def refused(trace: Path) -> str | None:
    """Why a folder cannot be measured with; None when it can."""
    if not trace.is_dir():
        return f"there is no folder {trace}"
    try:
        found = by_iteration(trace)[1]
    except TraceError as error:
        return str(error)
    if missing := [i for i in range(LAST + 1) if i not in found]:
        return f"{trace} holds no iteration {missing[0]} of a trainer; it must be a recording of gpt.py --steps 100"
    return None


def read(trace: Path) -> list[Tables]:
    """The tables of the trainer's blocks."""
    return [batch.tables for batch in TraceFolder(trace).batches() if batch.process.role == "trainer"]


def rows_in(tables: list[Tables]) -> int:
    """How many rows there are."""
    return sum(len(next(iter(columns.values()), ())) for one in tables for columns in one.values())


def by_iteration(trace: Path) -> tuple[list[tuple[str, tuple[Any, ...]]], dict[int, list[tuple[str, tuple[Any, ...]]]]]:
    """The rows before the first iteration, and those of each iteration in their order."""
    before: list[tuple[str, tuple[Any, ...]]] = []
    found: dict[int, list[tuple[str, tuple[Any, ...]]]] = {}
    for tables in read(trace):
        for kind, columns in tables.items():
            for row in zip(*columns.values(), strict=True):
                if kind in ("begin", "variable", "group"):
                    before.append((kind, row))
                elif kind in ITERATION and kind not in ("end", "thinned"):
                    found.setdefault(row[ITERATION[kind]], []).append((kind, row))
    return before, found


def lengthened(trace: Path, rows: int, rank: int = 0, world: int = 1) -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """The rows of a longer trace of one rank: what comes before the first iteration, then iteration by iteration.

    It begins as the recording does, so that what is told once, such as a rate, is known.
    """
    before, found = by_iteration(trace)
    place = {name: list(TABLES["begin"]).index(name) for name in ("rank", "world")}
    spread = list(TABLES["variable"]).index("spread")
    start = []
    for kind, row in before:
        values = list(row)
        if kind == "begin":
            values[place["rank"]], values[place["world"]] = rank, world
        elif kind == "variable" and world > 1:
            values[spread] = {"kind": "replicated", "ranks": list(range(world))}
        start.append((kind, tuple(values)))
    yield start
    made, lap = len(start), 0
    first = min(row[0] for _, row in found[FIRST])
    stride = max(row[0] for _, row in found[LAST]) - first + 2
    while made < rows:
        for i in range(FIRST if lap else 0, LAST):
            moved = [(kind, _moved(kind, row, lap * stride, lap * (LAST - FIRST))) for kind, row in found[i]]
            made += len(moved)
            yield moved
        lap += 1


def _moved(kind: str, row: tuple[Any, ...], q: int, i: int) -> tuple[Any, ...]:
    values = list(row)
    for place, name in enumerate(TABLES[kind]):
        if name in ("q", "e", "call") or (name == "parent" and values[place] >= 0):
            values[place] += q
        elif name in ("i", "s"):
            values[place] += i
    return tuple(values)


def written(trace: Path, out: Path, rows: int, world: int = 1) -> Path:
    """Write a longer trace, in blocks of ten iterations."""
    out.mkdir(parents=True)
    for rank in range(world):
        with (out / f"rank-{rank:05d}.{rank + 1}.trace").open("wb") as file:
            held: list[tuple[str, tuple[Any, ...]]] = []
            for number, part in enumerate(lengthened(trace, rows, rank, world)):
                held += part
                if number % 10 == 0:
                    file.write(block(payload(held)))
                    held = []
            file.write(block(payload(held)))
    return out


def as_tables(rows: list[tuple[str, tuple[Any, ...]]]) -> Tables:
    """Rows as the columns that a reader gives."""
    tables: Tables = {}
    for kind, row in rows:
        columns = tables.setdefault(kind, {name: [] for name in TABLES[kind]})
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    return tables
