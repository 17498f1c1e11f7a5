"""Writes the rows of a process to its trace file, beside the program and never in its way.

``put`` appends to a queue in memory; a daemon thread turns what waits into blocks and writes them.
Nothing here raises into the program: where rows cannot be kept they are dropped, counted, and the count is written.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import sys
import weakref
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from .background import Background
from .columns import HEAVY, ITERATION, TABLES, WRITER
from .copied import told
from .encode import block, payload
from .losses import Losses
from .segment import Segment

Row = tuple[Any, ...]

INTERVAL = 0.25
"""Seconds after which what waits is written."""
MANY = 4096
"""Rows that are written without waiting, and at most so many in one block."""
_COPIES = 1024
"""Rows that wait up to which they may hold copies of batches."""
LIMIT = 200_000
"""Rows, and entries of the long lists in them, that may wait: some 100 MB."""
LAST_WORDS = 1024
"""Bytes that the end of a file takes, at most, where the disk is full."""


class Writer:
    """Writes rows to one file.

    Attributes:
        path: The file; another than the one asked for where that one was there already.
        error: Why nothing could be written the last time; None where it could.
        dropped: Rows dropped so far.
        spent_ns: CPU time of the thread that writes.
    """

    def __init__(self, path: str | os.PathLike[str], interval: float = INTERVAL, limit: int = LIMIT) -> None:
        """Open the file and start the thread; where that fails, ``error`` says so and rows are counted as dropped."""
        self._rows: deque[tuple[str, Row]] = deque()
        self._heavy = 0
        self._limit = limit
        self._waiting: bytes | None = None
        self._kinds_waiting: Counter[str] = Counter()
        self._recent: deque[tuple[int, Counter[str]]] = deque()
        self._begins = 0
        self._losses = Losses()
        self._last_i = -1
        self._last_q = 0
        self._closed = False
        self._pid = os.getpid()
        self._writing = _thread.allocate_lock()
        self._segment = Segment(os.fspath(path))
        self.path = self._segment.path
        self._background = Background(self._write_behind, interval)
        self._background.start()
        _OPEN.add(self)
        self._at_exit()

    def put(self, kind: str, row: Row) -> None:
        """Keep a row to be written; from any thread, never waiting."""
        rows = self._rows
        if len(rows) >= MANY and self._crowded(kind):
            return
        if kind in HEAVY:
            self._weigh(kind, row)
        rows.append((kind, row))

    def put_all(self, kind: str, rows: Sequence[Row]) -> None:
        """Keep several rows of one kind, as ``put`` does."""
        if kind in HEAVY or len(self._rows) + len(rows) >= MANY:
            for row in rows:
                self.put(kind, row)
        else:
            self._rows.extend([(kind, row) for row in rows])

    @property
    def copies(self) -> bool:
        """Whether rows may hold copies of batches: so many wait only where the disk is slow that those may not, too."""
        return len(self._rows) < _COPIES

    @property
    def error(self) -> str | None:
        """Why nothing could be written the last time."""
        return self._segment.error

    @property
    def dropped(self) -> int:
        """Rows dropped so far."""
        return self._losses.total

    @property
    def spent_ns(self) -> int:
        """CPU time of the thread that writes."""
        return self._background.spent_ns

    @property
    def written_bytes(self) -> int:
        """Bytes in the file."""
        return self._segment.size

    def flush(self, timeout: float = 5.0) -> bool:
        """Write what waits, now and in this thread; say whether all of it is in the file."""
        if self._closed or not self._writing.acquire(timeout=timeout):
            return False
        try:
            return self._drain()
        finally:
            self._writing.release()

    def close(self, end: Row | None = None, timeout: float = 5.0) -> bool:
        """Write what waits and close the file; once, later calls do nothing.

        Args:
            end: The row of kind ``end``; what was dropped is filled in.
            timeout: Seconds to wait for a disk that is busy with an earlier block.

        Returns:
            Whether everything that was kept is in the file.
        """
        if self._closed or os.getpid() != self._pid:
            return self._closed
        complete = False
        if self._writing.acquire(timeout=timeout):
            try:
                if not self._closed:
                    complete = self._finish(end)
            finally:
                self._writing.release()
        self._closed = True
        self._background.end()
        _OPEN.discard(self)
        with contextlib.suppress(Exception):
            atexit.unregister(self._leave)
        return complete

    def _finish(self, end: Row | None) -> bool:
        complete = self._drain()
        if complete and end is not None:
            self._rows.append(("end", self._with_dropped(end)))
            complete = self._drain()
            if not complete:
                self._waiting = None
        if not complete:
            self._give_up(end)
        self._closed = True
        self._segment.close()
        return complete

    def _with_dropped(self, end: Row) -> Row:
        at = list(TABLES["end"]).index("dropped")
        return (*end[:at], self.dropped, *end[at + 1 :])

    def _give_up(self, end: Row | None) -> None:
        """Count what waits as dropped and say so in the little room that is left, or in that of the last block."""
        if self._waiting is not None:
            self._losses.count_all(self._kinds_waiting)
            self._waiting = None
        for kind, _ in self._rows:
            if kind != "end":
                self._losses.count(kind)
        self._rows.clear()
        if not self._segment.append(self._last_words(end)):
            while self._recent:
                start, kinds = self._recent.pop()
                self._losses.count_all(kinds)
                if self._segment.replace(start, self._last_words(end)):
                    return

    def _last_words(self, end: Row | None) -> bytes:
        """Return a block that says how many rows were dropped, and how the program ended."""
        self._losses.forget_what_was_told()
        self._say_what_was_lost()
        rows = [*self._rows, *([] if end is None else [("end", self._with_dropped(end))])]
        self._rows.clear()
        return block(payload(rows))

    def _at_exit(self) -> None:
        """Close at the end of the interpreter, and at that of a multiprocessing child, which skips atexit."""
        self._leave = _Leave(self)
        with contextlib.suppress(Exception):
            atexit.register(self._leave)
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            with contextlib.suppress(Exception):
                util.Finalize(None, self._leave, exitpriority=-100)

    def _weigh(self, kind: str, row: Row) -> None:
        try:  # a with statement would cost more than all the rest
            self._heavy += len(row[HEAVY[kind]])
        except Exception:
            return

    def _crowded(self, kind: str) -> bool:
        """Wake the thread; say whether the row has to be dropped, and count it."""
        if self._closed:
            return True
        if not self._background.awake:
            self._background.wake()
        if not self._background.running:
            self.flush(timeout=0)
        if len(self._rows) + self._heavy < self._limit:
            return False
        self._losses.count(kind)
        return True

    def _write_behind(self) -> None:
        """Write what waits, in the thread."""
        with contextlib.suppress(Exception), self._writing:
            if not self._closed:
                self._drain()

    def _drain(self) -> bool:
        """Write what waits; say whether nothing waits any more."""
        if self._waiting is not None:
            if not self._segment.append(self._waiting):
                return False
            self._waiting = None
            self._remember(self._kinds_waiting)
        self._say_what_was_lost()
        for _ in range(len(self._rows) // MANY + 1):
            if not self._rows:
                break
            if not self._one_block():
                return False
        return True

    def _one_block(self) -> bool:
        take = self._rows.popleft
        batch = [take() for _ in range(min(len(self._rows), MANY))]
        self._lighten(batch)
        try:
            data = block(payload(told(batch)))
        except Exception as error:
            self._count_loss(batch, error)
            return True
        self._kinds_waiting = Counter(kind for kind, _ in batch if kind in TABLES)
        if self._segment.append(data):
            self._remember(self._kinds_waiting)
            return True
        self._waiting = data
        return False

    def _remember(self, kinds: Counter[str]) -> None:
        """Remember the last blocks, which make room for the last words where there is no other.

        The first block says whose the file is, and stays.
        """
        if self._begins > 0:
            self._recent.append((self._begins, kinds))
        self._begins = self._segment.size
        while len(self._recent) > 1 and self._begins - self._recent[1][0] > LAST_WORDS:
            self._recent.popleft()

    def _lighten(self, batch: list[tuple[str, Row]]) -> None:
        """Take the weight of the rows off, and remember the last place in the run."""
        for kind, row in batch:
            if kind in HEAVY:
                with contextlib.suppress(Exception):
                    self._heavy -= len(row[HEAVY[kind]])
            elif kind not in TABLES:
                self._losses.count(kind)
        kind, row = batch[-1]
        with contextlib.suppress(Exception):
            self._last_q = int(row[0])
            if kind in ITERATION:
                self._last_i = int(row[ITERATION[kind]])

    def _count_loss(self, batch: list[tuple[str, Row]], error: Exception) -> None:
        """Count a batch that could not be encoded."""
        for kind, _ in batch:
            self._losses.count(kind)
        reason = f"{type(error).__name__}: {error}"[:300]
        self._rows.append(("trouble", (self._last_q, self._last_i, WRITER, f"rows cannot be encoded: {reason}")))

    def _say_what_was_lost(self) -> None:
        """Add a row that says how many rows were dropped since the last one said so."""
        said = self._losses.tell()
        if said:
            text = f"rows dropped, as the disk was full or too slow: {said}"
            self._rows.appendleft(("trouble", (self._last_q, self._last_i, WRITER, text)))

    def _pause(self) -> None:
        """End the thread for as long as the process forks: Python warns of forks beside threads."""
        if not self._closed:
            self._background.end()

    def _resume(self) -> None:
        if not self._closed:
            self._background.start()

    def _forget(self) -> None:
        """Leave the file to the parent: what a forked child does."""
        self._closed = True
        self._rows.clear()
        self._waiting = None
        self._writing = _thread.allocate_lock()
        self._background.forget()
        self._segment.forget()


class _Leave:
    """Closes a writer if there still is one, without keeping it."""

    def __init__(self, writer: Writer) -> None:
        self._writer = weakref.ref(writer)

    def __call__(self) -> None:
        writer = self._writer()
        if writer is not None:
            writer.close()


_OPEN: weakref.WeakSet[Writer] = weakref.WeakSet()


def _each(action: Callable[[Writer], None]) -> None:
    for writer in list(_OPEN):
        with contextlib.suppress(Exception):
            action(writer)


def _in_child() -> None:
    _each(Writer._forget)
    _OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _each(Writer._pause),
        after_in_parent=lambda: _each(Writer._resume),
        after_in_child=_in_child,
    )
