"""A process of a recorded run: who it is, and what was seen of it so far."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from preflight.monitor.collect.columns import ITERATION

from .reader import Columns, Damage, Tables

NAME = re.compile(r"(rank|worker)-(\d+)\.(\d+)(?:\.(\d+))?\.trace")
"""The name of a segment: its role, the rank, the number of the process, and a number where that one was used before."""

TIMED = ("state", "scalar")
"""Kinds whose rows are put at the moment that they name, so that their times never go back."""
BACK_NS = 1_000_000_000
"""How far the monotonic clock may seem to go back before it is said to have jumped."""


class Process:
    """A process and its file.

    Attributes:
        file: The name of its file, which no other process of the trace has.
        role: ``trainer``, or ``worker`` of a loader.
        rank: Its rank; that of its trainer for a worker.
        pid: Its number in the system. parent: That of the process that started it.
        attempt: 0 for the first process of this rank, 1 for the one after a restart.
        aside: Whether it only helps the one that trains: started by it, or having started it, and training nothing.
        facts: The columns of its last ``begin`` row.
        end: The columns of its ``end`` row; None where there is none so far.
        iteration: The last iteration seen; -1 before the first.
        first_t: The first time seen, and ``last_t`` the last one, in nanoseconds of its own clock.
        jumps: Iterations at which its clock went back.
        troubles: Rows of kind ``trouble``. thinned: Rows of kind ``thinned``.
        damage: What of its file cannot be read.
        rows: Rows seen, by kind.
        finished: Whether its file was read to its end and nobody writes any more.
        unjudged: The iteration from which on nothing is judged, since rows before it are lost; None where none are.
    """

    def __init__(self, file: str) -> None:
        """Know what the name of the file says."""
        named = NAME.fullmatch(file)
        self.file = file
        self.role = "worker" if named is not None and named[1] == "worker" else "trainer"
        self.rank = int(named[2]) if named is not None else 0
        self.pid = int(named[3]) if named is not None else -1
        self.parent = -1
        self.attempt = 0
        self.aside = False
        self.facts: dict[str, Any] = {}
        self.end: dict[str, Any] | None = None
        self.iteration = -1
        self.first_t: int | None = None
        self.last_t: int | None = None
        self.jumps: list[int] = []
        self._timed_t: int | None = None  # the last time of a row that was put at the time it names
        self.troubles: list[dict[str, Any]] = []
        self.thinned: list[dict[str, Any]] = []
        self.damage: list[Damage] = []
        self.rows: dict[str, int] = {}
        self.finished = False
        self.unjudged: int | None = None

    def __repr__(self) -> str:
        return f"Process({self.file!r}, {self.role} of rank {self.rank}, attempt {self.attempt})"

    @property
    def host(self) -> str | None:
        """The machine that it ran on."""
        host = self.facts.get("host")
        return host if isinstance(host, str) else None

    @property
    def world(self) -> int | None:
        """How many ranks it knew of."""
        world = self.facts.get("world")
        return world if type(world) is int else None

    @property
    def trained(self) -> bool:
        """Whether an iteration of training came to its end in it."""
        return self.role == "trainer" and self.rows.get("iteration", 0) > 0

    @property
    def offset(self) -> float | None:
        """What to add to a time of its clock, in seconds, for the time since 1970."""
        wall, t = self.facts.get("wall"), self.facts.get("t")
        if type(wall) is not float or type(t) is not int:
            return None
        return wall - t / 1e9

    def started(self) -> float | None:
        """When it began, in seconds since 1970."""
        wall = self.facts.get("wall")
        return wall if type(wall) is float else None

    def last_seen(self) -> float | None:
        """When the last row was put, in seconds since 1970."""
        offset = self.offset
        return None if offset is None or self.last_t is None else offset + self.last_t / 1e9

    def note(self, tables: Tables) -> None:
        """Take in what some rows say of the process."""
        for kind, columns in tables.items():
            self.rows[kind] = self.rows.get(kind, 0) + len(next(iter(columns.values()), ()))
            times = columns.get("t")
            if times:
                self._note_times(kind, times)
            if kind in ITERATION and columns["i"]:
                self._note_iteration(columns["i"])
        for row in rows_of(tables.get("begin")):
            self._begin(row)
        for row in rows_of(tables.get("end")):
            self.end = row
        self.troubles += rows_of(tables.get("trouble"))
        self.thinned += rows_of(tables.get("thinned"))

    def _note_times(self, kind: str, times: list[Any]) -> None:
        first, last = times[0], times[-1]
        if type(first) is not int or type(last) is not int:
            return
        if kind in TIMED:
            if self._timed_t is not None and self._timed_t - min(first, last) > BACK_NS:
                self.jumps.append(self.iteration)
                self.last_t = last
            self._timed_t = last
        self.first_t = first if self.first_t is None else self.first_t
        self.last_t = last if self.last_t is None else max(self.last_t, last)

    def _note_iteration(self, iterations: list[Any]) -> None:
        last = iterations[-1]
        if type(last) is int and last > self.iteration:
            self.iteration = last

    def _begin(self, row: dict[str, Any]) -> None:
        """Take what a ``begin`` row says; a later one of the same process knows more."""
        self.facts = row
        if row["role"] in ("trainer", "worker"):
            self.role = row["role"]
        for name in ("rank", "pid", "parent"):
            if type(row[name]) is int:
                setattr(self, name, row[name])


def rows_of(columns: Columns | None) -> list[dict[str, Any]]:
    """Return columns as rows, for the kinds of which there are few."""
    if not columns:
        return []
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def number_attempts(processes: list[Process]) -> list[tuple[Process, Process]]:
    """Number the processes of each rank in the order of time; return pairs that ran at the same time.

    Those that only help are told apart first, and have the number of the one that they help.
    """
    together: list[tuple[Process, Process]] = []
    trainers: dict[int, list[Process]] = {}
    helped = _helpers(processes)
    for process in processes:
        process.aside = process.file in helped
        if process.role == "trainer" and not process.aside:
            trainers.setdefault(process.rank, []).append(process)
    for same in trainers.values():
        same.sort(key=lambda process: (process.started() or 0.0, process.file))
        attempt = 0
        for before, process in zip([None, *same], same, strict=False):
            if before is not None:
                seen, started = before.last_seen(), process.started()
                if seen is not None and started is not None and started < seen - 1.0:
                    together.append((before, process))
                else:
                    attempt += 1
            process.attempt = attempt
    by_pid = {process.pid: process for same in trainers.values() for process in same}
    for process in processes:
        parent = by_pid.get(process.parent)
        if process.role == "worker" and parent is not None:
            process.attempt = parent.attempt
        elif process.aside:
            process.attempt = helped[process.file].attempt
    return together


def _helpers(processes: list[Process]) -> dict[str, Process]:
    """Return processes that say that they are ranks and only help one that trains, by file, with that one.

    A script that starts its ranks itself calls torch before it does; a pool of processes evaluates, or makes samples.
    None of them trains, and a rank that died before its first iteration does neither: the processes that started it
    or were started by it are no ranks of its world that train.
    """
    trained = {(process.host, process.pid): process for process in processes if process.trained}
    started = {(process.host, process.parent): process for process in reversed(processes) if process.trained}
    helped: dict[str, Process] = {}
    for process in processes:
        if process.role != "trainer" or process.trained:
            continue
        above = trained.get((process.host, process.parent))
        if above is not None and (above.rank, above.world) == (process.rank, process.world):
            helped[process.file] = above
        elif (below := started.get((process.host, process.pid))) is not None:
            helped[process.file] = below
    return helped


def segments(folder: Path) -> list[Path]:
    """Return the segments of a folder: by rank, then by the number of the process."""
    return sorted((path for path in folder.iterdir() if NAME.fullmatch(path.name)), key=_place)


def _place(path: Path) -> tuple[int, int, str, int, int]:
    named = NAME.fullmatch(path.name)
    assert named is not None
    return int(named[2]), 0 if named[1] == "rank" else 1, named[1], int(named[3]), int(named[4] or 0)
