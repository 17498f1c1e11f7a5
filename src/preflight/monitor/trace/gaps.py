"""What is missing in a trace, and what in it is doubtful, in sentences."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from heapq import nlargest
from statistics import median
from typing import Literal

from preflight.monitor.collect.columns import PAUSED, REPEATED, THREADS, TOLD
from preflight.vocabulary.trace import TraceGap

from .folder import TraceFolder
from .process import Process
from .reader import CUT
from .sealed import INDEX

_WORKER = "DataLoader worker"
"""What an exception begins with that tells of the death of a worker."""
MOST_RANKS = 8
MOST_SAID = 300
SHELL = 128
"""What is added to the number of the signal that ended a program, for its exit code."""
_BESIDE = frozenset({"memory", "trouble", "warning"})
"""Kinds of rows of which nothing is judged."""
CLOCKS_APART = 2.0
"""Seconds by which two clocks of one machine may differ."""


def gaps(folder: TraceFolder) -> list[TraceGap]:
    """Return what is missing in what was read of a folder so far; read it with ``poll`` before."""
    processes = folder.processes
    found: list[TraceGap] = []
    if folder.run_problem is not None:
        found.append(TraceGap(what="no run", text=folder.run_problem))
    found += _strange(folder)
    found += _lost(folder)
    found += _absent_ranks(folder)
    found += _failed(processes)
    for process in processes:
        found += _of_one(folder, process)
    found += _shorter(processes)
    found += _twice(folder)
    found += _clocks(processes)
    return found


def who(process: Process) -> str:
    """Return what to call a process in a sentence."""
    again = f", start {process.attempt + 1}" if process.attempt else ""
    if process.role == "worker":
        return f"worker {process.pid} of rank {process.rank}{again}"
    if process.aside:
        return f"process {process.pid}, which trains nothing,"
    return f"rank {process.rank}{again}"


def _trainers(processes: list[Process]) -> list[Process]:
    """The processes that train, or should: not the workers, and not those that only help."""
    return [process for process in processes if process.role == "trainer" and not process.aside]


def failure_of(process: Process) -> str | None:
    """Return what Python said of the exception that ended a process; None where none did, or it was only asked to stop."""
    end = process.end or {}
    error = end.get("error")
    return error if end.get("how") == "exception" and isinstance(error, str) and error else None


def _gap(what: str, text: str, process: Process, **more: int | str | None) -> TraceGap:
    return TraceGap(what=what, text=text, rank=process.rank, pid=process.pid, file=process.file, **more)  # type: ignore[arg-type]


def _strange(folder: TraceFolder) -> Iterator[TraceGap]:
    for file, damage in folder.strange.items():
        yield TraceGap(what="damage", text=f"{file} is no trace file", file=file, bytes=damage.end - damage.start)


def _lost(folder: TraceFolder) -> Iterator[TraceGap]:
    """Name the tables of a sealed run that are missing or damaged."""
    if folder.sealed is None:
        return
    if folder.sealed.problem is not None:
        text = f"{folder.sealed.problem}; the tables themselves told what they hold, and whether they are whole is not known"
        yield TraceGap(what="damage", text=text, file=INDEX)
    for kind, why in sorted(folder.sealed.lost.items()):
        table = folder.sealed.index.tables[kind]
        how_many = f"{table.rows:,} rows" if table.rows else "rows"  # an index made anew cannot count them
        lost = f"its one row of kind {kind} is lost" if table.rows == 1 else f"its {how_many} of kind {kind} are lost"
        what: Literal["damage", "lost"] = "damage" if kind in _BESIDE else "lost"
        yield TraceGap(what=what, text=f"{why}; {lost}", file=table.file, rows=table.rows or None)


def _is_lost(folder: TraceFolder, process: Process, kind: str) -> bool:
    """Whether what a process said of a kind was sealed and is lost."""
    sealed = folder.sealed
    return sealed is not None and kind in sealed.lost and process.file in sealed.files


def _absent_ranks(folder: TraceFolder) -> Iterator[TraceGap]:
    """Name the ranks that the latest processes, or the launcher, know of and that have no file."""
    trainers = _trainers(folder.processes)
    last = max((process.attempt for process in trainers), default=0)
    worlds = [process.world for process in trainers if process.attempt == last and process.world is not None]
    launched = folder.run.world_size if folder.run is not None else None
    world = max([*worlds, launched or 0], default=0)
    present = {process.rank for process in trainers}
    for rank in range(world):
        if rank not in present:
            yield TraceGap(what="no rank", text=f"there is no file of rank {rank}, of {world} ranks", rank=rank)


def _failed(processes: list[Process]) -> Iterator[TraceGap]:
    """Name the exceptions that ended ranks, each once, with the ranks that it ended and how far the last of them came."""
    ended: dict[tuple[int, str], list[Process]] = {}
    for process in processes:
        error = failure_of(process)
        if process.role == "trainer" and error is not None:
            ended.setdefault((process.attempt, " ".join(error.split()).rstrip(": ")), []).append(process)
    for (attempt, error), same in ended.items():
        ranks = sorted({process.rank for process in same if not process.aside})
        whose = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks[:MOST_RANKS]))}"
        whose = whose if ranks else who(same[0]).rstrip(",")
        more = f" and {len(ranks) - MOST_RANKS} more" if len(ranks) > MOST_RANKS else ""
        last = max(process.iteration for process in same)
        at = f" in iteration {last}" if last >= 0 else ""
        text = f"{whose}{more}{f', start {attempt + 1},' if attempt else ''} ended with {error[:MOST_SAID]}{at}"
        yield _gap("failed", text, same[0], iteration=last)


def _signal(folder: TraceFolder, process: Process) -> str | None:
    """Return which signal ended the program, where this is its only rank; None where that is not known."""
    code = None if folder.run is None else folder.run.exit_code
    trainers = _trainers(folder.processes)
    if code is None or code <= SHELL or len(trainers) > 1 or process not in trainers:
        return None
    try:
        return f"the program was ended by {signal.Signals(code - SHELL).name}"
    except ValueError:
        return None


def _of_one(folder: TraceFolder, process: Process) -> Iterator[TraceGap]:
    name = who(process)
    seen = f"; the last iteration that was recorded is {process.iteration}" if process.iteration >= 0 else ""
    if not process.facts and not _is_lost(folder, process, "begin"):
        yield _gap("no begin", f"{process.file} does not say which process wrote it", process)
    if process.end is None and not _is_lost(folder, process, "end"):
        running = None if process.finished else folder.running(process)
        if running:
            yield _gap("running", f"{name} still runs{seen}", process, iteration=process.iteration)
        elif not _left_behind(folder, process):
            why = _signal(folder, process) or "it was killed, or could not write" + (
                "" if running is False or process.finished else ", or runs elsewhere"
            )
            yield _gap("no end", f"{name} stopped without a word: {why}{seen}", process, iteration=process.iteration)
    for part in process.damage:
        lost = part.end - part.start
        where = "the end of" if part.reason == CUT else f"bytes {part.start} to {part.end} of"
        yield _gap("damage", f"{where} {process.file}: {part.reason}, {lost} bytes are lost", process, bytes=lost)
    dropped = (process.end or {}).get("dropped")
    if type(dropped) is int and dropped > 0:
        yield _gap("dropped", f"{dropped} rows of {name} were not kept", process, rows=dropped)
    if process.unjudged is not None:
        text = (
            f"nothing of {name.rstrip(',')} is judged from iteration {process.unjudged} on: what was lost may decide it"
        )
        yield _gap("unjudged", text, process, iteration=process.unjudged)
    for row in process.troubles:
        text = f"{name.rstrip(',')}, iteration {row['i']}: {row['where']}: {row['error']}"
        what = "unjudged" if row["where"] == THREADS else "trouble"
        yield _gap(what, text, process, iteration=row["i"] if type(row["i"]) is int else None)
    for row in process.thinned:
        every = row["every"]
        text = (
            f"{name} recorded {row['what']} {_often(row['what'], every)} from iteration {row['i']} on: {row['reason']}"
        )
        yield _gap("thinned", text, process, iteration=row["i"] if type(row["i"]) is int else None, part=row["what"])


def _often(what: str, every: int) -> str:
    """How often a part was recorded from an iteration on."""
    if what == PAUSED:
        return f"a few at a time, {TOLD} in some {every}," if every > 1 else "one after the other again"
    if what == REPEATED:
        few = "time" if every == 1 else f"{every} times"
        return f"of one place only the first {few}" if every else "one by one again"
    return "no more" if not every else "in every iteration again" if every == 1 else f"in 1 of {every} iterations"


def _left_behind(folder: TraceFolder, process: Process) -> bool:
    """Whether this is a helper whose trainer came to its end: it ends those that still wait, with a signal."""
    if process.role != "worker" and not process.aside:
        return False
    ends = [one.end for one in _trainers(folder.processes) if one.pid == process.parent and one.end]
    return any(_WORKER not in str(end.get("error")) for end in ends)


def _shorter(processes: list[Process]) -> Iterator[TraceGap]:
    trainers = _trainers(processes)
    for attempt in sorted({process.attempt for process in trainers}):
        same = [process for process in trainers if process.attempt == attempt]
        reached: dict[int, int] = {}
        for process in same:
            reached[process.rank] = max(process.iteration, reached.get(process.rank, -1))
        first = nlargest(2, reached, key=reached.__getitem__)
        for process in same:
            furthest = next((reached[rank] for rank in first if rank != process.rank), -1)
            if process.iteration < furthest and process.end is not None:
                when = f"at iteration {process.iteration}" if process.iteration >= 0 else "before its first iteration"
                text = f"{who(process)} ended {when}, and another rank reached {furthest}"
                yield _gap("shorter", text, process, iteration=process.iteration)


def _twice(folder: TraceFolder) -> Iterator[TraceGap]:
    for before, process in folder.together:
        text = f"processes {before.pid} and {process.pid} ran at the same time, and both say that they are rank"
        yield _gap("twice", f"{text} {process.rank}", process)


def _clocks(processes: list[Process]) -> Iterator[TraceGap]:
    """Name clocks that went back, and processes that read another time than the others of their machine."""
    for process in processes:
        for iteration in process.jumps:
            text = f"the clock of {who(process)} went back at iteration {iteration}; times across it are not comparable"
            yield _gap("clock", text, process, iteration=iteration)
    for host, attempt in sorted({(str(process.host), process.attempt) for process in processes if process.facts}):
        same = [p for p in processes if (str(p.host), p.attempt) == (host, attempt) and p.offset is not None]
        offsets = [process.offset or 0.0 for process in same]
        middle = median(offsets) if offsets else 0.0
        for process, offset in zip(same, offsets, strict=True):
            if len(same) > 1 and abs(offset - middle) > CLOCKS_APART:
                text = f"the clock of {host} was set between the starts of its processes: {who(process)} reads"
                yield _gap("clock", f"{text} {offset - middle:+.1f} s", process)
