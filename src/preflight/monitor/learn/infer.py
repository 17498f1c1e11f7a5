"""Infers invariants from recorded runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from preflight.errors import TraceError, UsageError
from preflight.monitor.learn.crossrun import Stable, learn
from preflight.monitor.learn.evidence import Observed, together
from preflight.monitor.learn.reduce import Part, Reduced, parts, reduce
from preflight.monitor.relation import Relation, relation, relations
from preflight.monitor.trace.folder import TraceFolder
from preflight.vocabulary.invariant import Invariant, Provenance

Where = Literal["local", "ray"]
Path_ = str | os.PathLike[str]


class Learnt(msgspec.Struct, frozen=True):
    """What was learnt.

    Attributes:
        invariants: What must hold, in the order of a file.
        runs: The trace folders.
        torch: The versions of PyTorch in them.
        windows: How many iterations of how many ranks were read; those that are compared over ranks count again.
        rows: How many rows they held.
        unstable: How many statements were dropped because a run that was left out breaks what the others say.
        unconfirmed: How many were dropped because only one of several runs speaks of them.
        broken: Relations that the runs break and no precondition saves: in how many examples.
    """

    invariants: tuple[Invariant, ...]
    runs: tuple[str, ...]
    torch: tuple[str, ...]
    windows: int
    rows: int
    unstable: int
    unconfirmed: int
    broken: dict[str, int]


def infer(
    trace_folders: Sequence[Path_],
    relations: Sequence[str] | None = None,
    engine: Where = "local",
    tell: Callable[[int, int], None] | None = None,
    base: Mapping[str, Sequence[Invariant]] | None = None,
) -> Learnt:
    """Learn what holds in recorded runs of correct training.

    Args:
        trace_folders: The runs; a statement about a named parameter, module or call must hold in two of several.
        relations: Names of the relations to learn; None for all.
        engine: Where the runs are read: ``local`` in this process, ``ray`` on the machines of a cluster.
        tell: Called after each part with how many of how many are done.
        base: General statements that are known, by relation; what is learnt is not wider than they are.

    Raises:
        UsageError: No folder, an unknown relation, or ray is not installed.
        TraceError: A folder holds no trace.
    """
    if not trace_folders:
        raise UsageError("no trace is given", "record one with: preflight monitor collect -o FOLDER -- python train.py")
    kinds = _kinds(relations)
    folders = [TraceFolder(Path(path)) for path in trace_folders]
    work = [parts(folder, kinds) for folder in folders]
    for folder, pieces in zip(folders, work, strict=True):
        if not pieces:
            raise TraceError(f"{folder.path} holds no process that trained")
    flat = [part for pieces in work for part in pieces]
    reduced = _reduce_all(flat, engine, tell)
    runs, at = [], 0
    for pieces in work:
        runs.append(together(Observed.decoded(one.evidence) for one in reduced[at : at + len(pieces)]))
        at += len(pieces)
    stable = learn(runs, {kind.name: kind for kind in kinds}, base)
    return _learnt(stable, folders, reduced)


def _kinds(names: Sequence[str] | None) -> list[type[Relation]]:
    if names is None:
        return list(relations().values())
    return [relation(name) for name in sorted(set(names))]


def _reduce_all(work: Sequence[Part], engine: Where, tell: Callable[[int, int], None] | None) -> list[Reduced]:
    if engine == "ray":
        from preflight.monitor.learn.spread import reduce_all

        return reduce_all(work, tell)
    if engine != "local":
        raise UsageError(f"no engine is called {engine!r}", "local or ray")
    done: list[Reduced] = []
    for part in work:
        done.append(reduce(part))
        if tell is not None:
            tell(len(done), len(work))
    return done


def _learnt(stable: Stable, folders: Sequence[TraceFolder], reduced: Sequence[Reduced]) -> Learnt:
    runs = tuple(dict.fromkeys(folder.path.resolve().name for folder in folders))
    versions = {str(process.facts.get("torch")) for folder in folders for process in folder.processes if process.facts}
    torch = tuple(sorted(versions - {"None"}))
    source = Provenance(origin="learnt", runs=runs, torch=torch)
    found = [msgspec.structs.replace(one, source=source) for one in stable.invariants]
    return Learnt(
        invariants=tuple(found),
        runs=tuple(str(Path(folder.path)) for folder in folders),
        torch=torch,
        windows=sum(one.windows for one in reduced),
        rows=sum(one.rows for one in reduced),
        unstable=stable.unstable,
        unconfirmed=stable.unconfirmed,
        broken=stable.broken,
    )
