"""Seals a finished run: one Parquet file for each kind of rows in place of the segments, all of them or none."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from preflight.errors import TraceError
from preflight.monitor.collect.columns import HEAVY
from preflight.vocabulary.trace import RUN_SCHEMA

from .folder import TraceFolder
from .process import Process
from .reader import CUT, count
from .run_file import sync_folder, write_whole
from .sealed import INDEX, SealedIndex, SealedProcess, SealedTable, checksum, connect, quoted
from .table_file import arrays, sql_columns, to_numpy

WORKSHOP = ".sealing"
ROWS_AT_ONCE = 20_000
ROWS_OF_A_GROUP = 20_480
ROWS_OF_A_HEAVY_GROUP = 2048
"""Of kinds whose rows hold long lists: a reader that wants some rows unpacks a whole group."""


def seal(path: str | Path, broken: bool = False) -> SealedIndex:
    """Turn the segments of a folder into Parquet files, and remove them when those were read back.

    The rows stand in the order of the ranks, and of each process in the order in which they were written.
    Where it is interrupted the segments are as they were.
    A segment with damage inside is kept under another name, beside what could be read of it.

    Args:
        path: The folder.
        broken: Whether to seal a run of which a process has not said that it ended.

    Returns:
        What ``sealed.json`` says.

    Raises:
        TraceError: There is no trace, a process still writes, or the files cannot be written.
    """
    folder = TraceFolder(path)
    processes = folder.identified()
    fresh = [process for process in processes if folder.sealed is None or process.file not in folder.sealed.files]
    if not fresh:
        if folder.sealed is None:
            raise TraceError(f"{path} holds nothing to seal: no process has written yet")
        _clean(folder.path, folder.sealed.index)
        return folder.sealed.index
    with _alone(folder.path):
        _refuse_what_grows(folder, fresh)
        workshop = folder.path / WORKSHOP
        shutil.rmtree(workshop, ignore_errors=True)
        try:
            workshop.mkdir()
            index = _Sealing(folder, workshop).run(broken)
        except OSError as error:
            raise TraceError(f"{path} cannot be sealed: {error.strerror or error}") from error
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
        _clean(folder.path, index)
    return index


class _Sealing:
    """One sealing: rows into tables of a database, from there into Parquet, and back to count them."""

    def __init__(self, folder: TraceFolder, workshop: Path) -> None:
        self._folder = folder
        self._workshop = workshop
        self._waiting: dict[str, tuple[dict[str, list[Any]], dict[str, list[int]]]] = {}
        self._rows: dict[str, dict[int, int]] = {}
        self._connection: Any = None

    def run(self, broken: bool) -> SealedIndex:
        """Seal, and return the index that was written."""
        import duckdb

        try:
            self._connection = connect(self._workshop / "overflow")
            try:
                processes = tuple(self._take(number, process) for number, process in enumerate(self._order(broken)))
                self._refuse_what_is_lost()
                tables = self._write()
            finally:
                self._connection.close()
            self._read_back(tables)
        except duckdb.Error as error:
            raise TraceError(f"{self._folder.path} cannot be sealed: {_words(error)}") from error
        index = SealedIndex(schema=RUN_SCHEMA, processes=processes, tables=tables)
        for table in tables.values():
            (self._workshop / table.file).replace(self._folder.path / table.file)
        sync_folder(self._folder.path)
        write_whole(self._folder.path / INDEX, msgspec.json.format(msgspec.json.encode(index), indent=1) + b"\n")
        return index

    def _refuse_what_is_lost(self) -> None:
        """Leave an earlier sealing as it is where not all of it could be read."""
        lost = {} if self._folder.sealed is None else self._folder.sealed.lost
        for why in lost.values():
            raise TraceError(f"{self._folder.path} cannot be sealed again: {why}")

    def _order(self, broken: bool) -> list[Process]:
        """Return the processes by rank, after one look at how each of them ended."""
        for _ in self._folder.poll():
            pass
        self._folder.finish()
        open_ended = [process for process in self._folder.processes if process.end is None]
        if open_ended and not broken:
            raise TraceError(
                f"{open_ended[0].file} has no end: its process was killed or runs elsewhere",
                hint="`preflight monitor export` seals it as it is",
            )
        return self._folder.processes

    def _take(self, number: int, process: Process) -> SealedProcess:
        """Take the rows of one process."""
        rows: dict[str, int] = {}
        damaged_from: int | None = None
        for block in self._folder.blocks(process):
            if block.after_damage and damaged_from is None:
                damaged_from = block.number
            for kind, columns in block.tables.items():
                taken = count(columns)
                rows[kind] = rows.get(kind, 0) + taken
                self._keep(kind, *arrays(kind, number, block.number, columns))
        for kind, taken in rows.items():
            self._rows.setdefault(kind, {})[number] = taken
        for kind in list(self._waiting):
            self._insert(kind)
        path = self._folder.path / process.file
        size = path.stat().st_size if path.exists() else self._known_size(process)
        return SealedProcess(
            file=process.file,
            role=process.role,
            rank=process.rank,
            pid=process.pid,
            attempt=process.attempt,
            bytes=size,
            damage=tuple(process.damage),
            rows=rows,
            damaged_from=damaged_from,
        )

    def _known_size(self, process: Process) -> int:
        assert self._folder.sealed is not None
        return self._folder.sealed.index.processes[self._folder.sealed.files.index(process.file)].bytes

    def _keep(self, kind: str, values: dict[str, list[Any]], marks: dict[str, list[int]]) -> None:
        """Keep rows until there are enough of them."""
        kept, kept_marks = self._waiting.setdefault(kind, ({}, {}))
        before = len(kept.get("block", ()))
        rows = len(values["block"])
        for name in {*marks, *kept_marks}:
            mark = kept_marks.setdefault(name, [0] * before)
            mark += marks.get(name, [0] * rows)
        for name, column in values.items():
            kept.setdefault(name, []).extend(column)
        if before + rows >= ROWS_AT_ONCE:
            self._insert(kind)

    def _insert(self, kind: str) -> None:
        values, marks = self._waiting.pop(kind)
        if not values.get("block"):
            return
        declared = ", ".join(f'"{name}" {type_}' for name, type_ in sql_columns(kind).items())
        self._connection.execute(f'CREATE TABLE IF NOT EXISTS "{_escaped(kind)}" ({declared})')
        given, expressions = to_numpy(kind, values, marks)
        self._connection.register("given", given)
        self._connection.execute(f'INSERT INTO "{_escaped(kind)}" SELECT {expressions} FROM given')
        self._connection.unregister("given")

    def _write(self) -> dict[str, SealedTable]:
        """Write the Parquet files into the workshop."""
        tables = {}
        for kind in sorted(self._rows):
            file = self._free_name(kind)
            group = ROWS_OF_A_HEAVY_GROUP if kind in HEAVY else ROWS_OF_A_GROUP
            target = quoted(str(self._workshop / file))
            self._connection.execute(
                f'COPY (SELECT * FROM "{_escaped(kind)}") TO {target}'
                f" (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {group})"
            )
            written = checksum(self._workshop / file)
            tables[kind] = SealedTable(file=file, rows=sum(self._rows[kind].values()), crc=written)
        return tables

    def _free_name(self, kind: str) -> str:
        """Return a name that no file of an earlier sealing has."""
        stem = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in kind)
        names = (f"{stem}.parquet" if number == 1 else f"{stem}.{number}.parquet" for number in range(1, 10**6))
        used = {table.file for table in self._folder.sealed.index.tables.values()} if self._folder.sealed else set()
        return next(name for name in names if name not in used and not (self._workshop / name).exists())

    def _read_back(self, tables: dict[str, SealedTable]) -> None:
        """Count the rows of each process in the files, by a connection that did not write them."""
        connection = connect()
        try:
            for kind, table in tables.items():
                source = quoted(str(self._workshop / table.file))
                found = connection.execute(
                    f"SELECT process, count(*) FROM read_parquet({source}) GROUP BY 1"
                ).fetchall()
                if dict(found) != self._rows[kind]:
                    raise TraceError(f"{table.file} does not hold the rows that were written; the segments are kept")
        finally:
            connection.close()


def _escaped(name: str) -> str:
    return name.replace('"', '""')


def _refuse_what_grows(folder: TraceFolder, processes: list[Process]) -> None:
    for process in processes:
        if folder.running(process):
            raise TraceError(
                f"{process.file} is still being written by process {process.pid}", hint="seal it when the run has ended"
            )


def _clean(path: Path, index: SealedIndex) -> None:
    """Remove what the sealed files stand for: the segments, and tables of an earlier sealing."""
    named = {table.file for table in index.tables.values()}
    for process in index.processes:
        segment = path / process.file
        if any(part.reason != CUT for part in process.damage) and segment.exists():
            segment.replace(segment.with_name(segment.name + ".damaged"))
        else:
            segment.unlink(missing_ok=True)
    for file in path.glob("*.parquet"):
        if file.name not in named and file.name.split(".")[0] in {name.split(".")[0] for name in named}:
            file.unlink(missing_ok=True)


def _words(error: Exception) -> str:
    """What went wrong in one line: DuckDB tells of a failure to write as JSON behind words of its own."""
    text = str(error).partition("\n")[0]
    with contextlib.suppress(ValueError, KeyError, TypeError, msgspec.DecodeError):
        return str(msgspec.json.decode(text[text.index("{") :])["exception_message"])
    return text


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep others from sealing the same folder meanwhile, where there are locks."""
    lock = path / ".sealing.lock"
    stream: IO[bytes] | None = None
    try:
        if sys.platform != "win32":
            import fcntl

            stream = lock.open("wb")
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise TraceError(f"{path} is being sealed by another process") from error
    except OSError as error:
        raise TraceError(f"{path} cannot be sealed: {error.strerror or error}") from error
    finally:
        if stream is not None:
            lock.unlink(missing_ok=True)
            stream.close()
