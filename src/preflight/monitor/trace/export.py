"""Gives the rows of a trace to other programs: JSON lines, CSV or Parquet, a file for each kind."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

from preflight.errors import InputError, TraceError, UsageError, nearest
from preflight.monitor.collect.columns import TABLES

from .folder import Batch, TraceFolder
from .process import rows_of
from .reader import Columns
from .seal import seal
from .sealed import Sealed, connect, quoted
from .table_file import sql_columns

Format = Literal["json", "csv", "parquet"]
ENDINGS: dict[str, str] = {"json": ".jsonl", "csv": ".csv", "parquet": ".parquet"}
WHO = ("rank", "pid", "role", "attempt")
"""Columns before those of a kind: of which process the row is. A column of the kind that has such a name is left."""


def export(
    path: str | Path, target: str | Path, kinds: Sequence[str] = (), form: Format = "json", force: bool = False
) -> dict[str, tuple[Path, int]]:
    """Write the rows of a trace into a folder, a file for each kind; the trace may be growing, broken or sealed.

    For Parquet it is sealed first, and so must not be growing.

    The rows stand by rank, and of each process in the order in which they were written.
    A number that is not finite is the text ``NaN``, ``Infinity`` or ``-Infinity`` in JSON.
    Lists and objects are JSON in CSV and Parquet.

    Args:
        path: The trace folder.
        target: The folder to write into; it is made where it is not there.
        kinds: The kinds of rows; none for all that there are.
        form: ``json`` (JSON lines), ``csv`` or ``parquet``.
        force: Whether to write over files that are there.

    Returns:
        For each kind that has rows, its file and how many.

    Raises:
        UsageError: There is no such kind.
        InputError: A file is there already, or cannot be written.
        TraceError: The trace cannot be read.
    """
    for kind in kinds:
        if kind not in TABLES:
            close = nearest(kind, TABLES)
            hint = f"did you mean {close}?" if close else f"there are {', '.join(TABLES)}"
            raise UsageError(f"a trace has no rows of kind {kind}", hint=hint)
    asked = frozenset(kinds) if kinds else None
    to = _Export(Path(target), form, force)
    if form == "parquet":
        seal(path, broken=True)
    folder = TraceFolder(path)
    folder.identified()
    try:
        to.target.mkdir(parents=True, exist_ok=True)
        if form == "parquet":
            return _copy_tables(folder, asked, to.free_path)
        return to.run(folder.batches(kinds=asked), asked)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror or error}") from error


def row_records(batch: Batch, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of one kind in a batch as objects, with the process before them."""
    process = batch.process
    who = dict(zip(WHO, (process.rank, process.pid, process.role, process.attempt), strict=True))
    for row in rows_of(batch.tables.get(kind)):
        yield {**who, **row}


class _Export:
    """One export: the files that are open, and how many rows went into each."""

    def __init__(self, target: Path, form: Format, force: bool) -> None:
        self.target = target
        self._form = form
        self._force = force
        self._streams: dict[str, IO[str]] = {}
        self._writers: dict[str, Any] = {}
        self._rows: dict[str, int] = {}

    def run(self, batches: Iterator[Batch], kinds: frozenset[str] | None) -> dict[str, tuple[Path, int]]:
        """Write the rows of some batches; return the files and how many rows each has."""
        try:
            for batch in batches:
                for kind in batch.tables:
                    if kinds is None or kind in kinds:
                        self._write(batch, kind)
        finally:
            for stream in self._streams.values():
                stream.close()
        found = {}
        for kind, rows in sorted(self._rows.items()):
            self._part(kind).replace(self._path(kind))
            found[kind] = (self._path(kind), rows)
        return found

    def free_path(self, kind: str) -> Path:
        """Return the file of a kind.

        Raises:
            InputError: It is there already, and may not be written over.
        """
        path = self._path(kind)
        if path.exists() and not self._force:
            raise InputError(f"{path} is there already", hint="--force writes over it")
        return path

    def _path(self, kind: str) -> Path:
        return self.target / f"{kind.replace('/', '_')}{ENDINGS[self._form]}"

    def _part(self, kind: str) -> Path:
        path = self._path(kind)
        return path.with_name(f".{path.name}.part")

    def _write(self, batch: Batch, kind: str) -> None:
        if kind not in self._streams:
            self.free_path(kind)
            self._streams[kind] = self._part(kind).open("w", encoding="utf-8", newline="")
        stream = self._streams[kind]
        records = list(row_records(batch, kind))
        self._rows[kind] = self._rows.get(kind, 0) + len(records)
        if self._form == "csv":
            self._write_csv(kind, stream, records, batch.tables[kind])
            return
        for record in records:
            stream.write(_line(record))

    def _write_csv(self, kind: str, stream: IO[str], records: list[dict[str, Any]], columns: Columns) -> None:
        import csv

        if kind not in self._writers:
            names = [*WHO, *(name for name in (TABLES.get(kind) or columns) if name not in WHO)]
            self._writers[kind] = csv.DictWriter(stream, names, extrasaction="ignore")
            self._writers[kind].writeheader()
        self._writers[kind].writerows({name: _cell(value) for name, value in record.items()} for record in records)


def _line(record: dict[str, Any]) -> str:
    try:
        return json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(_finite(record), separators=(",", ":"), allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """Return a value in which numbers that are not finite are texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return _special(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


def _special(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _cell(value: Any) -> Any:
    """Return a value as it stands in a cell; absent is empty."""
    if isinstance(value, float) and not math.isfinite(value):
        return _special(value)
    if isinstance(value, (dict, list)):
        return json.dumps(_finite(value), separators=(",", ":"))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value


def _copy_tables(
    folder: TraceFolder, kinds: frozenset[str] | None, path_of: Callable[[str], Path]
) -> dict[str, tuple[Path, int]]:
    """Copy the tables of a sealed folder, with the process of each row."""
    import duckdb

    sealed = folder.sealed
    assert sealed is not None
    found = {}
    connection = connect()
    try:
        for kind, table in sealed.index.tables.items():
            if kinds is not None and kind not in kinds:
                continue
            if (why := sealed.why_lost(kind)) is not None:
                raise TraceError(
                    f"{folder.path} cannot be exported whole: {why}", hint="name the other kinds, each with --kind"
                )
            path = path_of(kind)
            names = [name for name in sql_columns(kind) if name not in (*WHO, "process", "block")]
            told = [f"{_list(name, sealed)}[process + 1] AS {name}" for name in WHO]
            columns = ", ".join([*told, *(f'"{name}"' for name in names)])
            part = path.with_name(f".{path.name}.part")
            connection.execute(
                f"COPY (SELECT {columns} FROM read_parquet({sealed.path(kind)})) TO {quoted(str(part))}"
                " (FORMAT parquet, COMPRESSION zstd)"
            )
            part.replace(path)
            found[kind] = (path, table.rows)
    except duckdb.Error as error:
        raise TraceError(f"{folder.path} cannot be exported: {error}") from error
    finally:
        connection.close()
    return found


def _list(name: str, sealed: Sealed) -> str:
    """Return what the processes are, by their numbers, as a list of SQL."""
    values = [getattr(process, name) for process in sealed.index.processes]
    return "[" + ", ".join(quoted(value) if isinstance(value, str) else str(value) for value in values) + "]"
