"""The index of a sealed run worked out anew from its tables, where ``sealed.json`` is damaged or gone.

The tables know which process each row is of, and ``begin`` who the processes were. What the index alone knew is lost: the
checksums, so that damage to a table is seen only where it cannot be read, and what was damaged when the run was sealed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from preflight.monitor.collect.columns import TABLES

from .sealed import SealedIndex, SealedProcess, SealedTable, connect, quoted

_TABLE = re.compile(r"([a-z_]+)(?:\.(\d+))?\.parquet")


def index_of_tables(folder: Path, schema: str) -> SealedIndex | None:
    """Return what the tables of a folder say of themselves; None where there are none."""
    there = _tables(folder)
    if not there:
        return None
    counts: dict[str, dict[int, int]] = {}
    connection = connect()
    for kind in there:
        asked = f"SELECT process, count(*) FROM read_parquet({_path(folder, there[kind])}) GROUP BY ALL"
        counts[kind] = dict(_answers(connection, asked))
    asked = f"SELECT process, role, rank, pid FROM read_parquet({_path(folder, there.get('begin', ''))}) ORDER BY process, block, q"
    who: dict[int, tuple[str, int, int]] = {
        process: (role or "trainer", rank or 0, pid or 0) for process, role, rank, pid in _answers(connection, asked)
    }
    numbers = range(max((number for found in counts.values() for number in found), default=-1) + 1)
    files: set[str] = set()
    processes = []
    for number in numbers:
        role, rank, pid = who.get(number, ("trainer", 0, 0))
        file = _segment(role, rank, pid, files)
        rows = {kind: found[number] for kind, found in counts.items() if number in found}
        processes.append(SealedProcess(file=file, role=role, rank=rank, pid=pid, attempt=0, bytes=0, rows=rows))
    tables = {kind: SealedTable(file=there[kind], rows=sum(counts[kind].values())) for kind in there}
    return SealedIndex(schema=schema, processes=tuple(processes), tables=tables)


def _answers(connection: Any, asked: str) -> list[tuple[Any, ...]]:
    """Return the rows that a question gives; none where a table is damaged, of which the reader says so."""
    import duckdb

    try:
        found: list[tuple[Any, ...]] = connection.execute(asked).fetchall()
    except duckdb.Error:
        return []
    return found


def _segment(role: str, rank: int, pid: int, taken: set[str]) -> str:
    """Return a name as the file of the process had, which no other has."""
    begins = f"{'worker' if role == 'worker' else 'rank'}-{rank:05d}.{pid}"
    file, again = f"{begins}.trace", 1
    while file in taken:
        file, again = f"{begins}.{again}.trace", again + 1
    taken.add(file)
    return file


def _tables(folder: Path) -> dict[str, str]:
    """Return the file of each kind; of several, which sealing again left, the newest."""
    found: dict[str, tuple[int, str]] = {}
    for path in folder.iterdir():
        named = _TABLE.fullmatch(path.name)
        if named is not None and named[1] in TABLES:
            found[named[1]] = max(found.get(named[1], (0, "")), (int(named[2] or 1), path.name))
    return {kind: found[kind][1] for kind in TABLES if kind in found}


def _path(folder: Path, file: str) -> str:
    return quoted(str(folder / file))
