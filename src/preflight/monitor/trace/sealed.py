"""The Parquet files of a sealed run, read by DuckDB a part at a time."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from preflight.errors import TraceError
from preflight.vocabulary.trace import RUN_SCHEMA

from .process import Process, segments
from .reader import Block, Columns, Damage, Tables
from .run_file import DamagedError, read_described
from .table_file import from_lists, sql_columns

INDEX = "sealed.json"
ROWS_AT_ONCE = 40_000
MEMORY = "768MB"


class SealedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process whose file was sealed: the file, its size, its damage, its rows by kind, and its first block after damage."""

    file: str
    role: str
    rank: int
    pid: int
    attempt: int
    bytes: int
    damage: tuple[Damage, ...] = ()
    rows: dict[str, int] = {}
    damaged_from: int | None = None


class SealedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet file: its name, its rows, and the CRC-32 of its bytes (None where an older version wrote it)."""

    file: str
    rows: int
    crc: int | None = None


class SealedIndex(msgspec.Struct, frozen=True, kw_only=True):
    """What ``sealed.json`` says: the processes, in the order of their numbers, and the rows of each kind."""

    schema: str
    processes: tuple[SealedProcess, ...]
    tables: dict[str, SealedTable]


class Sealed:
    """A sealed folder.

    Attributes:
        index: What ``sealed.json`` says.
        files: The names that the segments of the processes had.
        lost: Kinds of rows whose file is missing or damaged, with why; of one that was not asked for it is not known.
        problem: Why the index had to be worked out anew from the tables; None where it could be read.
    """

    def __init__(self, folder: Path, index: SealedIndex, problem: str | None = None) -> None:
        """Open what an index describes."""
        self.index = index
        self.problem = problem
        self.files = [process.file for process in index.processes]
        self._folder = folder
        self._connection: Any = None
        self._places: dict[str, dict[int, list[tuple[int, int]]]] = {}
        self._known: dict[str, Any] = {}
        self.lost: dict[str, str] = {}
        for kind, table in index.tables.items():
            if not (folder / table.file).is_file():
                self.lost[kind] = f"{table.file} is missing"

    @classmethod
    def open(cls, folder: Path) -> Sealed | None:
        """Open the sealed part of a folder; None where nothing is sealed.

        Where the index is damaged or gone, the tables say what they hold, unless the segments are still there.

        Raises:
            TraceError: The index is damaged and no table is there, is of a newer format, or names a file of another folder.
        """
        problem: DamagedError | None = None
        try:
            index = read_described(folder / INDEX, SealedIndex)
        except DamagedError as error:
            index, problem = None, error
        if index is None:
            found = cls._of_tables(folder, str(problem) if problem is not None else f"there is no {INDEX}")
            if found is None and problem is not None:
                raise problem
            return found
        for table in index.tables.values():
            if Path(table.file).name != table.file:
                raise TraceError(f"{folder / INDEX} is damaged: {table.file!r} is no name of a file beside it")
        return cls(folder, index)

    @classmethod
    def _of_tables(cls, folder: Path, problem: str) -> Sealed | None:
        from .unindexed import index_of_tables

        if not folder.is_dir() or segments(folder):  # sealing writes the index last and removes the segments then
            return None
        index = index_of_tables(folder, RUN_SCHEMA)
        return None if index is None else cls(folder, index, problem)

    def process(self, file: str) -> Process:
        """Return a process with what is known without reading its rows."""
        known = self.index.processes[self.files.index(file)]
        process = Process(file)
        process.role, process.rank, process.pid = known.role, known.rank, known.pid
        process.attempt = known.attempt
        process.damage = list(known.damage)
        process.finished = True
        for kind in ("begin", "end", "trouble", "thinned"):
            for block in self.blocks(file, frozenset({kind})):
                process.note(block.tables)
        process.rows.clear()
        process.troubles.clear()
        process.thinned.clear()
        return process

    def blocks(self, file: str, kinds: frozenset[str] | None = None) -> Iterator[Block]:
        """Yield the blocks of a process, as they were in its segment."""
        process = self.files.index(file)
        damaged = self.index.processes[process].damaged_from
        wanted = [kind for kind in self.index.tables if kinds is None or kind in kinds]
        sizes: dict[int, int] = {}
        for kind in wanted:
            for block, rows in self._place(kind).get(process, ()):
                sizes[block] = sizes.get(block, 0) + rows
        for first, last in _parts(sizes):
            parts = {kind: self._part(kind, process, first, last) for kind in wanted}
            for block in sorted(number for number in sizes if first <= number <= last):
                tables: Tables = {kind: part[block] for kind, part in parts.items() if block in part}
                yield Block(block, -1, -1, tables, after_damage=damaged is not None and block >= damaged)

    def why_lost(self, kind: str) -> str | None:
        """Return why the rows of a kind cannot be read; None where they can."""
        self._place(kind)
        return self.lost.get(kind)

    def connect(self) -> Any:
        """Return the connection, which takes little memory and one core."""
        if self._connection is None:
            self._connection = connect()
        return self._connection

    def path(self, kind: str) -> str:
        """Return the path of the file of a kind, as a text of SQL."""
        return quoted(str(self._folder / self.index.tables[kind].file))

    def _place(self, kind: str) -> dict[int, list[tuple[int, int]]]:
        """Return the blocks of each process that have rows of a kind, with how many; none where the rows are lost."""
        if kind not in self._places:
            places: dict[int, list[tuple[int, int]]] = {}
            for process, block, rows in self._counted(kind):
                places.setdefault(process, []).append((block, rows))
            self._places[kind] = places
        return self._places[kind]

    def _counted(self, kind: str) -> list[tuple[int, int, int]]:
        """Return how many rows of a kind each block of each process has, once the file is seen to be what was written."""
        table = self.index.tables[kind]
        if kind in self.lost:
            return []
        try:
            if table.crc is not None and table.crc != checksum(self._folder / table.file):
                raise TraceError("it is not what was written")
            found: list[tuple[int, int, int]] = self._ask(
                f"SELECT process, block, count(*) FROM read_parquet({self.path(kind)}) GROUP BY ALL ORDER BY ALL"
            ).fetchall()
            return found
        except (TraceError, OSError) as error:
            self.lost[kind] = f"{table.file} is damaged: {str(error).splitlines()[0]}"
            return []

    def _part(self, kind: str, process: int, first: int, last: int) -> dict[int, Columns]:
        """Return the rows of a kind in some blocks of a process, by block."""
        inside = [(block, rows) for block, rows in self._place(kind).get(process, ()) if first <= block <= last]
        if not inside:
            return {}
        names = [name for name in sql_columns(kind) if name not in ("process", "block")]
        columns = ", ".join(f'"{name}"' for name in names)
        found = self._ask(
            f"SELECT {columns} FROM read_parquet({self.path(kind)})"
            f" WHERE process = {process} AND block BETWEEN {first} AND {last}"
        ).fetchnumpy()
        stored = {name: array.tolist() for name, array in found.items()}
        parts, start = {}, 0
        for block, rows in inside:
            part = {name: column[start : start + rows] for name, column in stored.items()}
            parts[block] = from_lists(kind, part, self._known)
            start += rows
        if start != len(stored["odd"]):
            raise TraceError(f"{self.index.tables[kind].file} changed while it was read")
        return parts

    def _ask(self, query: str) -> Any:
        import duckdb

        try:
            return self.connect().execute(query)
        except duckdb.Error as error:
            raise TraceError(f"a sealed table cannot be read: {error}") from error


def checksum(path: Path) -> int:
    """Return the CRC-32 of the bytes of a file."""
    found = 0
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            found = zlib.crc32(piece, found)
    return found


def connect(overflow: Path | None = None) -> Any:
    """Return a connection that takes little memory and one core, and needs nothing from elsewhere.

    Args:
        overflow: The folder for what does not fit into its memory; none where nothing has to be kept.
    """
    import duckdb

    settings: dict[str, Any] = {
        "threads": 1,
        "memory_limit": MEMORY,
        "autoinstall_known_extensions": False,
    }
    connection = duckdb.connect(":memory:", config=settings | ({"temp_directory": str(overflow)} if overflow else {}))
    connection.execute("SET enable_progress_bar = false")  # it would stand in the middle of what is written to stdout
    return connection


def quoted(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _parts(sizes: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of blocks that are read together."""
    first: int | None = None
    rows = last = 0
    for block in sorted(sizes):
        if first is not None and rows + sizes[block] > ROWS_AT_ONCE:
            yield first, last
            first, rows = None, 0
        first = block if first is None else first
        rows += sizes[block]
        last = block
    if first is not None:
        yield first, last
