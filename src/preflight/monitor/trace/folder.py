"""A trace folder: the processes of a recorded run and their rows, growing or finished, in segments or sealed."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from preflight.errors import TraceError, nearest
from preflight.vocabulary.trace import RecordedRun

from .process import Process, number_attempts, segments
from .reader import Block, Damage, Reader, Tables, is_segment
from .run_file import NAME as RUN_FILE
from .run_file import read_run
from .sealed import Sealed

Kinds = frozenset[str] | None
RECORDINGS = Path(".preflight", "monitor")
"""Where recordings go, in the folder in which one is started, unless they are told otherwise."""
WHO = frozenset({"begin", "end", "trouble", "thinned"})
"""Kinds that say who a process is and how it went; read whatever is asked for."""


class Batch(msgspec.Struct, frozen=True):
    """Rows that a process put one after another, with its block in the file of the process."""

    process: Process
    block: Block

    @property
    def tables(self) -> Tables:
        """The rows, by kind, as columns."""
        return self.block.tables


class TraceFolder:
    """A trace folder.

    A *batch* is the content of a block: all rows of one process that were put between two moments.
    Batches of a process come in the order in which they were written, sealed or not, and so do the rows of a kind.
    A call is put when it returns, so that calls stand in the order of their exits (``e``), not of ``q``.
    The values are shared and must not be changed.

    Attributes:
        path: The folder.
        run: What ``run.json`` says; None where there is none or it cannot be read, and ``run_problem`` says why.
        sealed: The Parquet files; None where there are none.
    """

    def __init__(self, path: str | Path, kinds: Kinds = None) -> None:
        """Open a folder; with ``kinds``, other kinds of rows are left out.

        Raises:
            TraceError: It is no folder, holds no trace, or one of a newer format.
        """
        self.path = Path(path)
        self._kinds = None if kinds is None else kinds | WHO
        self._refuse_what_is_no_folder()
        self.run: RecordedRun | None = None
        self.run_problem: str | None = None
        self.sealed = Sealed.open(self.path)
        self._processes: dict[str, Process] = {}
        self._readers: dict[str, Reader] = {}
        self._strange: dict[str, Damage] = {}
        self._waiting = [] if self.sealed is None else list(self.sealed.files)
        self._together: list[tuple[Process, Process]] = []
        self.refresh()
        if not (self._processes or (self.path / RUN_FILE).exists()):
            self._refuse_what_holds_no_trace()

    @property
    def processes(self) -> list[Process]:
        """The processes known so far, by rank, trainers first."""
        return sorted(
            self._processes.values(), key=lambda p: (p.rank, p.role != "trainer", p.attempt, p.started() or 0.0, p.file)
        )

    @property
    def together(self) -> list[tuple[Process, Process]]:
        """Pairs of trainers of the same rank that ran at the same time."""
        return self._together

    @property
    def strange(self) -> dict[str, Damage]:
        """Files that are named as segments are, and are none."""
        return self._strange

    def refresh(self) -> None:
        """Look for ``run.json`` and for files of processes that began since.

        Raises:
            TraceError: The folder cannot be read any more, or the file is of a newer format.
        """
        try:
            self.run = read_run(self.path)
            self.run_problem = None if self.run is not None else "there is no run.json"
        except TraceError as error:
            if "format" in str(error):
                raise
            self.run_problem = str(error)
        covered = set() if self.sealed is None else set(self.sealed.files)
        if self.sealed is not None:
            for file in self.sealed.files:
                self._processes.setdefault(file, self.sealed.process(file))
        for path in self._segments():
            if path.name in covered or path.name in self._readers:
                continue
            if is_segment(path) or self._holds_a_block(path):
                self._strange.pop(path.name, None)
                self._readers[path.name] = Reader(path, self._kinds)
                self._processes[path.name] = Process(path.name)
            else:
                self._strange[path.name] = Damage(0, path.stat().st_size, "it is no trace file")

    def poll(self) -> Iterator[Batch]:
        """Yield the batches that were not given before: of a sealed process all, of a segment those that are whole."""
        self.refresh()
        while self._waiting:
            assert self.sealed is not None
            file = self._waiting.pop(0)
            for block in self.sealed.blocks(file, self._kinds):
                yield self._noted(self._processes[file], block)
        for file in sorted(self._readers):
            yield from self._poll_one(file)
        self._together = number_attempts(list(self._processes.values()))

    def pull(self, process: Process) -> Iterator[Batch]:
        """Yield of one process what ``poll`` would give of it now, so that several can be read side by side."""
        if process.file in self._waiting:
            assert self.sealed is not None
            self._waiting.remove(process.file)
            for block in self.sealed.blocks(process.file, self._kinds):
                yield self._noted(process, block)
        elif process.file in self._readers:
            yield from self._poll_one(process.file)

    def finish(self) -> None:
        """Take the end of each segment for its end: nobody writes any more."""
        for file, reader in self._readers.items():
            reader.finish()
            self._processes[file].damage = reader.damage
            self._processes[file].finished = True
        self._together = number_attempts(list(self._processes.values()))

    def batches(self, by: Literal["rank", "iteration"] = "rank", kinds: Kinds = None) -> Iterator[Batch]:
        """Yield all batches that are there, from the beginning, whatever ``poll`` gave before.

        Args:
            by: ``rank`` for one process after the other; ``iteration`` for the process that is behind first, so that
                the ranks stay together.
            kinds: The kinds of rows that are wanted; None for those of this folder.
        """
        wanted = self._kinds if kinds is None else kinds
        streams = {file: self._stream(file, wanted) for file in (process.file for process in self.identified())}
        if by == "rank":
            for file, stream in streams.items():
                for block in stream:
                    yield Batch(self._processes[file], block)
            return
        yield from self._together_by_iteration(streams)

    def blocks(self, process: Process, kinds: Kinds = None) -> Iterator[Block]:
        """Yield the blocks of one process that are there, from its beginning."""
        return self._stream(process.file, self._kinds if kinds is None else kinds)

    def identified(self) -> list[Process]:
        """Read what says who the processes are, and return them; cheap where that is known already."""
        unread = [
            file
            for file, reader in self._readers.items()
            if reader.offset == 0 and not self._processes[file].facts and not self._processes[file].rows
        ]
        for file in unread:
            for block in Reader(self.path / file, WHO).poll():
                if "begin" in block.tables:
                    scout = Process(file)
                    scout.note(block.tables)
                    process = self._processes[file]
                    process.facts, process.role, process.rank = scout.facts, scout.role, scout.rank
                    process.pid, process.parent = scout.pid, scout.parent
                    break
        if unread:
            number_attempts(list(self._processes.values()))
        return self.processes

    def running(self, process: Process) -> bool | None:
        """Whether a process still writes; None where that cannot be known."""
        if process.end is not None or process.file not in self._readers:
            return False
        return is_locked(self.path / process.file) if process.host in (None, socket.gethostname()) else None

    def _segments(self) -> list[Path]:
        try:
            return segments(self.path)
        except OSError as error:
            raise TraceError(f"{self.path} cannot be read any more: {error.strerror or error}") from error

    def _poll_one(self, file: str) -> Iterator[Batch]:
        reader, process = self._readers[file], self._processes[file]
        for block in reader.poll():
            process.damage = reader.damage
            yield self._noted(process, block)
        process.damage = reader.damage

    def _noted(self, process: Process, block: Block) -> Batch:
        process.note(block.tables)
        return Batch(process, block)

    def _stream(self, file: str, kinds: Kinds) -> Iterator[Block]:
        if file in self._readers:
            return Reader(self.path / file, kinds).poll()
        assert self.sealed is not None
        return self.sealed.blocks(file, kinds)

    def _together_by_iteration(self, streams: dict[str, Iterator[Block]]) -> Iterator[Batch]:
        """Yield of the process that is behind, until all are at their end."""
        seen = {file: Process(file) for file in streams}
        attempt = {file: self._processes[file].attempt for file in streams}
        while streams:
            file = min(streams, key=lambda name: (attempt[name], seen[name].iteration, list(seen).index(name)))
            block = next(streams[file], None)
            if block is None:
                del streams[file]
                continue
            seen[file].note({kind: columns for kind, columns in block.tables.items() if kind not in WHO})
            yield Batch(self._processes[file], block)

    def _holds_a_block(self, path: Path) -> bool:
        return next(Reader(path).poll(), None) is not None

    def _refuse_what_is_no_folder(self) -> None:
        if not self.path.exists():
            near = nearest(self.path.name, sorted(one.parent.name for one in _traces_in(self.path.parent)))
            raise TraceError(
                f"{self.path} does not exist", hint=f"did you mean {self.path.with_name(near)}?" if near else None
            )
        if not self.path.is_dir():
            above = self.path.parent
            of_one = self.path.name == RUN_FILE or self.path.suffix in (".trace", ".parquet")
            hint = (
                f"did you mean {above}?" if of_one else "preflight monitor run -o FOLDER -- python train.py records one"
            )
            raise TraceError(f"{self.path} is a file, and a trace is a folder", hint=hint)

    def _refuse_what_holds_no_trace(self) -> None:
        if self._strange:
            raise TraceError(f"{self.path / next(iter(self._strange))} is no trace file")
        newest = max(
            _traces_in(self.path) or _traces_in(self.path / RECORDINGS),
            key=lambda one: (one.stat().st_mtime_ns, one), default=None,
        )  # fmt: skip
        raise TraceError(
            f"{self.path} holds no trace: no rank-*.trace, no sealed.json and no run.json",
            hint="record one with `preflight monitor collect -o FOLDER -- python train.py`"
            if newest is None
            else f"did you mean {newest.parent}, the newest in it?",
        )


def _traces_in(folder: Path) -> list[Path]:
    """Return the ``run.json`` of each trace that lies directly in a folder."""
    try:
        return [one / RUN_FILE for one in sorted(folder.iterdir()) if (one / RUN_FILE).is_file()]
    except OSError:
        return []


def _no_lock(_: Path) -> bool | None:
    return None


def _locked(path: Path) -> bool | None:
    import fcntl

    try:
        with path.open("rb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            fcntl.flock(stream, fcntl.LOCK_UN)
    except OSError:
        return None
    return False


is_locked: Callable[[Path], bool | None] = _no_lock if sys.platform == "win32" else _locked
"""Whether a living process holds the lock that a writer takes; None where there are no such locks."""
