"""Reads sources on several cores: one process each, which is told what to read through a pipe and answers through another.

The processes are started anew (``python -m preflight.source.logs.worker``), so that it does not matter what the caller's process
has loaded, opened or guarded.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from preflight.source.logs.one_file import Wanted, as_file
from preflight.source.logs.reduced import Reduced
from preflight.source.logs.rules import Rules
from preflight.source.logs.sharing import share

SMALL = 48 << 20
"""Less than this is read at once: starting a process takes as long as reading 50 MB."""
EACH = 1 << 16
"""What a file weighs at least beside its bytes: what it is and who wrote it has to be found out for each."""
_BATCH = 16 << 20
_BATCH_FILES = 128
# Made once, here: msgspec works out the types of a struct when a decoder is made, and two threads at once crash in it.
_REPLY = msgspec.msgpack.Decoder(list[list[Reduced]])


def cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def batches(work: Sequence[Wanted]) -> list[list[int]]:
    """Return the numbers of the sources in heaps of about the same size, each heap of neighbours."""
    found: list[list[int]] = [[]]
    size = 0
    for number, wanted in enumerate(work):
        if found[-1] and (size >= _BATCH or len(found[-1]) >= _BATCH_FILES):
            found.append([])
            size = 0
        found[-1].append(number)
        size += wanted.source.size if wanted.end is None and not wanted.begin else _BATCH
    return [heap for heap in found if heap]


def read_all(
    work: Sequence[Wanted],
    rules: Rules,
    packed: bytes,
    *,
    processes: int | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> list[list[Reduced]]:
    """Read the sources; the result is in their order. Few bytes are read in this process."""
    from preflight.source.logs.one_file import read_one

    many = cores() if processes is None else processes
    waiting = batches(work)
    many = min(many, len(waiting))
    if many <= 1 or sum(wanted.source.size + EACH for wanted in work) < SMALL and processes is None:
        return [read_one(wanted, rules) for wanted in work]
    pool = _Pool(work, packed, waiting[::-1], tell)
    threads = [threading.Thread(target=pool.serve, daemon=True) for _ in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if pool.failed is not None:
        raise pool.failed
    return [pool.done[number] for number in range(len(work))]


class _Pool:
    def __init__(
        self,
        work: Sequence[Wanted],
        packed: bytes,
        waiting: list[list[int]],
        tell: Callable[[int, int], None] | None,
    ) -> None:
        self.done: dict[int, list[Reduced]] = {}
        self.failed: BaseException | None = None
        self._work = work
        self._packed = packed
        self._waiting = waiting
        self._lock = threading.Lock()
        self._heaps = len(waiting)
        self._told = 0
        self._tell = tell

    def _next(self) -> list[int] | None:
        with self._lock:
            return self._waiting.pop() if self._waiting and self.failed is None else None

    def serve(self) -> None:
        """Give one process work until there is none left."""
        worker: Worker | None = None
        try:
            while (heap := self._next()) is not None:
                worker = worker or Worker(self._packed)
                found = worker.read([self._work[number] for number in heap])
                if found is None:
                    worker.close()
                    worker = None
                    self._after_death(heap)
                else:
                    self.done.update(zip(heap, found, strict=True))
                with self._lock:
                    self._told += 1
                    if self._tell is not None:
                        self._tell(self._told, self._heaps)
        except BaseException as error:
            self.failed = error
        finally:
            if worker is not None:
                worker.close()

    def _after_death(self, heap: list[int]) -> None:
        """A source that kills its reader is named; the others of its heap are read, each in a process of its own."""
        for number in heap:
            worker = Worker(self._packed)
            found = worker.read([self._work[number]])
            worker.close()
            if found is None:
                file = as_file(self._work[number], "unreadable", problem="its reader was killed, by memory or a crash")
                found = [[Reduced(file=file)]]
            self.done[number] = found[0]


class Worker:
    """A process that reads sources."""

    def __init__(self, packed: bytes) -> None:
        """Start it."""
        root = str(Path(__file__).resolve().parents[3])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "preflight.source.logs.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self._send(packed)

    def _send(self, data: bytes) -> bool:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(len(data).to_bytes(8, "big") + data)
            self._process.stdin.flush()
        except (BrokenPipeError, OSError):
            return False
        return True

    def read(self, work: list[Wanted]) -> list[list[Reduced]] | None:
        """Return what the sources gave; None where the process died."""
        assert self._process.stdout is not None
        if not self._send(msgspec.msgpack.encode(work)):
            return None
        head = self._process.stdout.read(8)
        size = int.from_bytes(head, "big")
        data = self._process.stdout.read(size) if len(head) == 8 else b""
        if len(head) < 8 or len(data) < size:
            return None
        found = _REPLY.decode(data)
        for reduced in chain.from_iterable(found):
            share(reduced.steps)
        return found

    def close(self) -> None:
        """End it."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
