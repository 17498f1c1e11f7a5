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
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.invariant import Invariant, Provenance
from preflight.vocabulary.report import SCHEMA, Report, Tool
from preflight.vocabulary.version import VERSION

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
        failed: Relations that failed at a run, with the error; nothing is learnt of them.
        lost: Files of which nothing was read from an iteration on, since rows before it are lost.
    """

    invariants: tuple[Invariant, ...]
    runs: tuple[str, ...]
    torch: tuple[str, ...]
    windows: int
    rows: int
    unstable: int
    unconfirmed: int
    broken: dict[str, int]
    failed: dict[str, str] = {}
    lost: dict[str, int] = {}


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
        relations: Names of the relations to learn; None for all, and then what the shipped library says of relations
            that these runs gave nothing to judge is taken over as it is.
        engine: Where the runs are read: ``local`` in this process, ``ray`` on the machines of a cluster.
        tell: Called after each part with how many of how many are done.
        base: General statements with preconditions that are known, by relation: what is learnt is not wider than they
            are. None for those of the shipped library, which has seen more kinds of programs.

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
    failed = {name: error for one in reduced for name, error in one.failed.items()}
    stable = learn(
        runs, {kind.name: kind for kind in kinds if kind.name not in failed}, known_of(kinds) if base is None else base
    )
    learnt = _learnt(stable, folders, reduced, _rows(flat, reduced), failed)
    lost = {
        f"{part.folder}/{file}": at for part, one in zip(flat, reduced, strict=True) for file, at in one.lost.items()
    }
    learnt = msgspec.structs.replace(learnt, lost=lost)
    if relations is not None:
        return learnt
    taken = (one for one in _unjudged(runs) if one.relation not in failed)
    return msgspec.structs.replace(learnt, invariants=(*learnt.invariants, *taken))


def infer_invariants(
    *trace_folders: Path_,
    output: Path_ | None = None,
    relations: Sequence[str] | None = None,
    engine: Where = "local",
) -> Report:
    """Learn what holds in recorded runs of correct training.

    Args:
        trace_folders: The runs; a statement about a named parameter, module or call must hold in two of several.
        output: An invariants file to be written.
        relations: Names of the relations to learn; None for all.
        engine: Where the runs are read: ``local`` in this process, ``ray`` on the machines of a cluster.

    Returns:
        The report, with ``invariants``.

    Raises:
        UsageError: No folder, an unknown relation, or ray is not installed.
        TraceError: A folder holds no trace.
        InputError: The file cannot be written.
    """
    learnt = infer(trace_folders, relations, engine)
    if output is not None:
        from preflight.monitor.invariants_file import write_invariants

        write_invariants(output, learnt.invariants)
    return report_of(learnt)


def report_of(learnt: Learnt) -> Report:
    """What was learnt, as a report."""
    count = {
        "iterations": learnt.windows,
        "events": learnt.rows,
        "invariants": len(learnt.invariants),
        "invariants.taken_over": sum(one.source.origin == "library" for one in learnt.invariants),
        "invariants.unstable": learnt.unstable,
        "invariants.unconfirmed": learnt.unconfirmed,
    }
    notes = [
        f"{name} was broken {fails} times in these runs, and no precondition tells when: it is left out"
        for name, fails in learnt.broken.items()
    ]
    notes += [f"nothing is learnt of {name}: it failed with {error}" for name, error in learnt.failed.items()]
    notes += [
        f"rows of {file} are lost: nothing is learnt of it from iteration {at} on" for file, at in learnt.lost.items()
    ]
    return Report(
        schema=SCHEMA,
        command="monitor infer",
        tool=Tool("preflight", VERSION),
        verdict="GO",
        inputs={"paths": list(learnt.runs)},
        facts={name: Fact(value=value) for name, value in count.items()},
        invariants=learnt.invariants,
        notes=tuple(notes),
    )


def known_of(kinds: Sequence[type[Relation]]) -> dict[str, list[Invariant]]:
    """What the shipped library says, with preconditions, of relations without named subjects."""
    from preflight.monitor.library_of import shipped

    wanted = {kind.name for kind in kinds if not kind.learns}
    known: dict[str, list[Invariant]] = {}
    for one in shipped():
        if one.relation in wanted and not one.subject and one.precondition and one.suppressed is None:
            known.setdefault(one.relation, []).append(one)
    return known


def _unjudged(runs: Sequence[Observed]) -> list[Invariant]:
    """What the shipped library says, of relations that the runs gave nothing to judge: it holds until they do."""
    from preflight.monitor.library_of import shipped

    judged = {name for run in runs for name in run}
    return [one for one in shipped() if one.relation not in judged and one.suppressed is None]


def _kinds(names: Sequence[str] | None) -> list[type[Relation]]:
    if names is None:
        return [kind for kind in relations().values() if not kind.predicted]
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


def _rows(work: Sequence[Part], reduced: Sequence[Reduced]) -> int:
    """How many rows were read; those of ranks that were read one by one and again together count once."""
    alone = [one.rows for part, one in zip(work, reduced, strict=True) if len(part.files) == 1]
    return sum(alone or (one.rows for one in reduced))


def _learnt(
    stable: Stable, folders: Sequence[TraceFolder], reduced: Sequence[Reduced], rows: int, failed: dict[str, str]
) -> Learnt:
    versions = {str(process.facts.get("torch")) for folder in folders for process in folder.processes if process.facts}
    torch = tuple(sorted(versions - {"None"}))
    names = [folder.path.resolve().name for folder in folders]

    def source(one: Invariant) -> Provenance:
        spoke = dict.fromkeys(names[place] for place in stable.speak[one.id])
        return Provenance(origin="learnt", runs=tuple(spoke), torch=torch)

    found = [msgspec.structs.replace(one, source=source(one)) for one in stable.invariants]
    return Learnt(
        invariants=tuple(found),
        runs=tuple(str(Path(folder.path)) for folder in folders),
        torch=torch,
        windows=sum(one.windows for one in reduced),
        rows=rows,
        unstable=stable.unstable,
        unconfirmed=stable.unconfirmed,
        broken=stable.broken,
        failed=failed,
    )
