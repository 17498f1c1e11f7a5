"""A recording that grows while a test looks at it, written by hand: no torch, no training."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path
from typing import Any

import msgspec

from preflight.monitor.collect.columns import TABLES
from preflight.monitor.collect.encode import block, payload
from preflight.monitor.collect.segment import Segment
from preflight.monitor.trace.run_file import write_run
from preflight.vocabulary.trace import RecordedRun

SECOND = 1_000_000_000
PLACE = "train.py:7"
Row = tuple[str, tuple[Any, ...]]


def row(kind: str, **values: Any) -> Row:
    """A row of which some columns are given."""
    assert set(values) <= set(TABLES[kind]), kind
    return kind, tuple({**dict.fromkeys(TABLES[kind]), **values}.values())


class Growing:
    """A run of some ranks that this process pretends to be."""

    def __init__(
        self, folder: Path, world: int = 1, started: float | None = None, accumulate: int = 1, **said: Any
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.world = world
        self.accumulate = accumulate
        self.iteration = 0
        self._q = 0
        self._wall = time.time() if started is None else started
        told = {"program": "train.py", "arguments": ("python", "train.py"), "launcher": os.getpid()}
        told |= {"host": socket.gethostname(), "started": self._wall, **said}
        self.run = RecordedRun(**told)
        write_run(folder, self.run)
        self._files: list[Segment] = []
        self._silent: set[int] = set()

    def begin(self) -> None:
        """All ranks begin to write, and hold the locks of those that live."""
        for rank in range(self.world):
            self._files.append(Segment(str(self.folder / f"rank-{rank:05d}.{100 + rank}.trace")))
            begin = row(
                "begin", q=self._next(), t=0, wall=self._wall, role="trainer", rank=rank, local_rank=rank,
                world=self.world, pid=100 + rank, parent=1, host=socket.gethostname(), python="3.11", torch="2.13",
                argv=["train.py"], directory=".", recorder="1",
            )  # fmt: skip
            self._files[rank].append(block(payload([begin])))

    def steps(self, count: int, loss: float = 1.0, seconds: float = 0.5, memory: int = 0) -> None:
        """Every rank makes some steps."""
        for _ in range(count):
            for rank, file in enumerate(self._files):
                if rank in self._silent:
                    continue
                file.append(block(payload(self._step(rank, loss, seconds, memory))))
            self.iteration += 1

    def fall_silent(self, rank: int) -> None:
        """A rank is gone without a word."""
        self._silent.add(rank)
        self._files[rank].close()

    def fail(self, rank: int, error: str) -> None:
        """A rank ends with an error of its own, and the others go on."""
        last = {"i": self.iteration - 1, "s": self.iteration - 1, "t": self.iteration * SECOND}
        told = row("end", q=self._next(), how="exception", code=1, error=error, spent_ns=5, dropped=0, **last)
        self._files[rank].append(block(payload([told])))
        self.fall_silent(rank)

    def end(self, code: int | None = 0, error: str | None = None) -> None:
        """All ranks end, and the launcher says so."""
        for rank, file in enumerate(self._files):
            if rank in self._silent:
                continue
            how = "exception" if error else "exit"
            last = {"i": self.iteration - 1, "s": self.iteration - 1, "t": self.iteration * SECOND}
            told = row("end", q=self._next(), how=how, code=code, error=error, spent_ns=5, dropped=0, **last)
            file.append(block(payload([told])))
        self.close()
        ended = self._wall + self.iteration
        write_run(self.folder, msgspec.structs.replace(self.run, ended=ended, exit_code=code))

    def close(self) -> None:
        """All ranks are gone."""
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()

    def _next(self) -> int:
        self._q += 1
        return self._q

    def _step(self, rank: int, loss: float, seconds: float, memory: int) -> list[Row]:
        i = self.iteration
        t = int((i * seconds * (1 + rank)) * SECOND)
        at = {"i": i, "s": i // self.accumulate}
        rows = []
        for name in ("zero_grad optimizer0:SGD", "forward model", "backward", "step optimizer0:SGD"):
            what, _, of = name.partition(" ")
            q, e = self._next(), self._next()
            rows.append(
                row(
                    "call", q=q, e=e, t=t + q, d=10, name=what, object=of, parent=-1, thread=1, place=PLACE,
                    context="grad", **at,
                )
            )  # fmt: skip
            if what == "backward":
                rows.append(row("scalar", q=self._next(), t=t + q, name="loss", object=PLACE, value=loss, **at))
        if memory:
            held = {"allocated": memory, "reserved": memory, "peak": memory, "peak_reserved": memory}
            rows.append(row("memory", q=self._next(), t=t, device="cuda:0", capacity=4 * memory, **held, **at))
        return [*rows, row("iteration", q=self._next(), t=t, **at)]
