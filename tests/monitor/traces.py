"""Makes trace folders without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from preflight.monitor.collect.columns import TABLES
from preflight.monitor.collect.encode import block, payload
from preflight.monitor.trace.folder import Batch

from .rows import begin, call, end

Row = tuple[str, tuple[Any, ...]]


def write(folder: Path, name: str, *blocks: list[Row]) -> Path:
    """Write a segment of blocks."""
    path = folder / name
    path.write_bytes(b"".join(block(payload(rows)) for rows in blocks))
    return path


def row(kind: str, **values: Any) -> Row:
    """A row of which some columns are given."""
    assert set(values) <= set(TABLES[kind]), kind
    return kind, tuple({**dict.fromkeys(TABLES[kind]), **values}.values())


def rank(
    folder: Path,
    number: int = 0,
    world: int = 1,
    iterations: int = 4,
    ended: bool = True,
    pid: int | None = None,
    dropped: int = 0,
    **more: Any,
) -> Path:
    """Write the segment of a trainer: a block for each iteration."""
    pid = 100 + number if pid is None else pid
    blocks: list[list[Row]] = [[("begin", begin(0, number, world, pid, **more))]]
    start = 0 if more.get("t") is None else more["t"]
    for i in range(iterations):
        rows = [("call", call(10 * i + at, i=i, name=("forward", "step")[at % 2])) for at in range(6)]
        value = (0.5, float("nan"), float("inf"), None)[i % 4]
        rows.append(row("scalar", q=10 * i + 7, t=start + i * 1000, i=i, s=i, name="loss", value=value))
        ids, norm, bits = [0, 1, 2], [1.5, None, float("nan")], [2**63 - 1, 0, 5]
        rows.append(
            row("state", q=10 * i + 8, t=start + i * 1000, i=i, s=i, moment="start", ids=ids, norm=norm, bits=bits)
        )
        blocks.append(rows)
    if ended:
        blocks.append([("end", end(10 * iterations, iterations - 1, dropped=dropped, t=start + iterations * 1000))])
    return write(folder, f"rank-{number:05d}.{pid}.trace", *blocks)


def shown(batches: list[Batch]) -> list[Any]:
    """What is in batches, in a form that can be compared: NaN equals NaN, 1 is not 1.0."""
    return [
        (batch.process.file, batch.block.number, {kind: repr(columns) for kind, columns in batch.tables.items()})
        for batch in batches
    ]


def content(batches: list[Batch]) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    """The rows of each process and kind, in order, as text."""
    found: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for batch in batches:
        for kind, columns in batch.tables.items():
            rows = [tuple(map(repr, row)) for row in zip(*columns.values(), strict=True)]
            found.setdefault((batch.process.file, kind), []).extend(rows)
    return found
