"""Reduces a recorded run to its evidence: part by part, each part on its own, on whatever machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from preflight.monitor.judging.assemble import Assembler
from preflight.monitor.judging.examples import Examples, Judged
from preflight.monitor.learn.evidence import Observed
from preflight.monitor.relation import Relation, relation
from preflight.monitor.scope import scope_of
from preflight.monitor.trace.folder import TraceFolder
from preflight.monitor.trace.process import Process
from preflight.monitor.window import Window


class Part(msgspec.Struct, frozen=True):
    """A piece of work.

    Attributes:
        folder: A trace folder.
        files: Files of processes in it: one rank, or all ranks that trained together.
        relations: Names of the relations to be counted.
    """

    folder: str
    files: tuple[str, ...]
    relations: tuple[str, ...]


class Reduced(msgspec.Struct, frozen=True):
    """What a part gave: its evidence in bytes, how much was read, and the relations that failed, with the error.

    Of a file in ``lost``, nothing was read from that iteration on, since rows before it are lost.
    """

    evidence: bytes
    windows: int
    rows: int
    failed: dict[str, str] = {}
    lost: dict[str, int] = {}


def parts(folder: TraceFolder, kinds: Sequence[type[Relation]]) -> list[Part]:
    """The pieces of work of a folder: each rank, and the ranks together for relations that compare them."""
    path = str(folder.path)
    single = tuple(kind.name for kind in kinds if not kind.across)
    across = tuple(kind.name for kind in kinds if kind.across)
    found: list[Part] = []
    for team in teams(folder):
        if single:
            found += [Part(path, (process.file,), single) for process in team]
        if across and len(team) > 1:
            found.append(Part(path, tuple(process.file for process in team), across))
    return found


def teams(folder: TraceFolder) -> list[list[Process]]:
    """The processes that trained together: of each world, the first of every rank, then the second of every rank.

    As the checker does, a process is placed by what is known when its first window is whole, and one without a window
    has no place.
    """
    found: dict[tuple[int, int], list[Process]] = {}
    places: dict[tuple[int, int], int] = {}
    for process in folder.identified():
        first = next(windows_of(folder, process), None) if process.role == "trainer" else None
        if first is None:
            continue
        world, rank = first.run.world, first.rank
        nth = places[world, rank] = places.get((world, rank), -1) + 1
        found.setdefault((world, nth), []).append(process)
    return [found[key] for key in sorted(found)]


def reduce(part: Part) -> Reduced:
    """Count the examples of a part."""
    folder = TraceFolder(Path(part.folder))
    chosen = [process for process in folder.identified() if process.file in part.files]
    kinds = [relation(name) for name in part.relations]
    observed = Observed()
    windows = rows = 0
    examples = Examples(kinds)
    for window in in_order(folder, chosen, examples, kinds, observed):
        windows += 1
        rows += window.rows
    failed = {one.relation: one.error for one in examples.failures}
    lost = {process.file: process.unjudged for process in chosen if process.unjudged is not None}
    return Reduced(observed.encoded(), windows, rows, failed, lost)


def in_order(
    folder: TraceFolder,
    processes: Sequence[Process],
    examples: Examples,
    kinds: Sequence[type[Relation]],
    observed: Observed,
) -> Iterator[Window]:
    """Count the windows of processes iteration by iteration, within one by rank; yield them as they are counted."""
    lanes: dict[int, Iterator[Window]] = {}
    waiting: dict[int, Window] = {}
    for process in processes:
        lane = windows_of(folder, process)
        first = next(lane, None)
        if first is not None:
            lanes[first.rank], waiting[first.rank] = lane, first
    while waiting:
        rank = min(waiting, key=lambda one: (waiting[one].iteration, one))
        window = waiting.pop(rank)
        _count(examples.see(window), kinds, observed)
        yield window
        if not _advance(rank, lanes, waiting):
            _count(examples.ended(rank), kinds, observed)
    _count(examples.finish(), kinds, observed)


def windows_of(folder: TraceFolder, process: Process) -> Iterator[Window]:
    """The windows of one process, as far as no rows before them were lost."""
    assembler, reached = Assembler(), 0
    for block in folder.blocks(process):
        if block.after_loss:
            process.unjudged = reached
            break
        for window in assembler.feed(block.tables):
            reached = window.iteration + 1
            yield window
    yield from assembler.finish()


def _advance(rank: int, lanes: dict[int, Iterator[Window]], waiting: dict[int, Window]) -> bool:
    window = next(lanes[rank], None)
    if window is None:
        return False
    waiting[rank] = window
    return True


def _count(judged: list[Judged], kinds: Sequence[type[Relation]], observed: Observed) -> None:
    for number, examples, window in judged:
        kind, at = kinds[number], (window.rank, window.iteration)
        scope = scope_of(window, kind.needs)
        for example in examples:
            observed.see(kind.name, example, at, scope if kind.learns else None)
