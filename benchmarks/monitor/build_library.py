"""Builds the shipped invariants from the healthy reference programs, and validates them on those that are held out.

    python benchmarks/monitor/build_library.py TRACES [--also OTHER ...] [--dry] [--only RELATION ...]

TRACES holds a recording of each program under its name; missing ones are recorded (see `warm.py`).
What is learnt comes from the programs that `healthy/HELDOUT` does not name. It is held against the others and, with
``--also``, against further recordings of any of them (other seeds, lengths, sizes); nothing may be alarmed there.

- Of a relation without named subjects the general statement is taken, with a precondition where programs break it.
  One that a held-out recording breaks, or whose precondition gives up more than a fifth of what held, is written with
  the reason why it is suppressed, so that it is not in force until the relation, or the program, is put right.
- Of a relation that learns nothing is taken unless ``--habits`` is given: then statements whose subject holds no name of
  a program, where at least three programs speak of it and all agree; what a held-out recording breaks is dropped.
  What programs agree in without having to (gradients set to None, outputs in float32) is a habit, and a correct program
  of other habits would be alarmed; such statements belong to the invariants that are inferred from a run of one's own.

A relation that was added or changed gets in by running this again: one file for each relation is written into
`src/preflight/monitor/library/`, and files of relations that are gone are removed. What programs break is printed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from healthy_programs import heldout
from warm import jobs_of, record, recorded

from preflight.monitor.follow import Follower
from preflight.monitor.invariants_file import write_invariants
from preflight.monitor.judging.examples import Examples
from preflight.monitor.learn.crossrun import learn
from preflight.monitor.learn.evidence import Observed
from preflight.monitor.learn.reduce import in_order, teams
from preflight.monitor.learn.sentences import sentence
from preflight.monitor.learn.statements import key_of, values_of
from preflight.monitor.library_of import FOLDER
from preflight.monitor.relation import Relation, relations
from preflight.monitor.scope import MODEL
from preflight.monitor.trace.folder import TraceFolder
from preflight.vocabulary.invariant import Invariant, Provenance

LEAST_SHARE = 0.8
"""Of what held, the share that a precondition must leave in force: one that gives up more hides what is wrong."""
LEAST_PROGRAMS = 3
"""Programs that speak of a statement with a named subject."""


class Program:
    """What a recorded program gives: the evidence of each relation, its names and its version of torch."""

    def __init__(self, trace: Path, kinds: Sequence[type[Relation]]) -> None:
        self.name = trace.name
        self.trace = trace
        self.observed = Observed()
        self.names: set[str] = set()
        folder = TraceFolder(trace)
        for team in teams(folder):
            for window in in_order(folder, team, Examples(kinds), kinds, self.observed):
                self.names.update(names_in(window))
        self.torch = {str(process.facts["torch"]) for process in folder.processes if process.facts.get("torch")}


def names_in(window: Any) -> Iterable[str]:
    """Names that belong to the program and not to torch: of variables, modules, loaders and other objects."""
    for variable in window.changed:
        yield variable.name
        yield variable.root
    for rows in (window.calls, window.tensors, window.numbers):
        for row in rows:
            if row.object:
                yield row.object
                yield row.object.split(":")[0]
    for row in window.batches:
        yield row.loader


def speaks_of_names(invariant: Invariant, names: set[str]) -> bool:
    """Whether a subject holds a name of a program, or its models."""
    if MODEL in invariant.subject:
        return True
    words = [word for field, word in invariant.subject.items() if field not in ("value", "values")]
    return any(isinstance(word, str) and (word in names or ".py:" in word) for word in words)


def spoken(invariant: Invariant, kind: type[Relation], program: Program) -> bool:
    """Whether a program gave evidence of a statement."""
    evidence = program.observed.get(invariant.relation)
    if evidence is None:
        return False
    key = key_of(kind, invariant)
    wanted = values_of(invariant)
    return any(
        invariant.applies(dict(context)) and (wanted is None or bool(cell.values and wanted & set(cell.values)))
        for subject, seen in evidence.subjects.items()
        if subject[: len(key)] == key
        for context, cell in seen.cells.items()
    )


def learnt(programs: Sequence[Program], kinds: Mapping[str, type[Relation]]) -> list[Invariant]:
    """What the programs say in common."""
    stable = learn([program.observed for program in programs], kinds, least_runs=LEAST_PROGRAMS)
    names = {name for program in programs for name in program.names}
    broken: list[Invariant] = []
    for relation, fails in sorted(stable.broken.items()):
        print(
            f"NO STATEMENT  {relation}: failed {fails} times, and no precondition saves it: {_who(relation, programs)}"
        )
        source = Provenance(origin="library", runs=tuple(p.name for p in programs if relation in p.observed))
        reason = f"a correct program breaks it where others keep it: {_who(relation, programs)}"
        broken.append(_general(kinds[relation], 0, source, reason))
    kept = broken
    for one in stable.invariants:
        if speaks_of_names(one, names):
            continue
        sources = [program for program in programs if spoken(one, kinds[one.relation], program)]
        torch = tuple(sorted({version for program in sources for version in program.torch}))
        source = Provenance(origin="library", runs=tuple(program.name for program in sources), torch=torch)
        one = msgspec.structs.replace(one, source=source)
        if not kinds[one.relation].learns and one.precondition:
            share = one.support / sum(_held(one.relation, program) for program in programs)
            print(f"PRECONDITION  {one.text} ({share:.1%} of what held, {len(sources)} programs); broken otherwise by:")
            print(f"              {_who(one.relation, programs)}")
            if share < LEAST_SHARE:
                reason = f"a correct program breaks it where others keep it: {_who(one.relation, programs)}"
                one = _general(kinds[one.relation], one.support, source, reason)
        kept.append(one)
    return kept


def _held(relation: str, program: Program) -> int:
    table = program.observed[relation].table() if relation in program.observed else {}
    return sum(cell.holds for cell in table.values())


def _general(kind: type[Relation], support: int, source: Provenance, reason: str) -> Invariant:
    """The general statement, not in force: with the reason."""
    text = sentence(kind, {}, ())
    return Invariant(
        kind.name, kind.name, text=text, support=support, source=source, severity=kind.severity, suppressed=reason
    )


def _who(relation: str, programs: Sequence[Program]) -> str:
    """Which programs break a relation, how often, and in which contexts."""
    told = []
    for program in programs:
        if relation not in program.observed:
            continue
        for context, cell in program.observed[relation].table().items():
            if cell.fails:
                words = ", ".join(f"{field}={value}" for field, value in context)
                told.append(f"{program.name} {cell.fails} of {cell.fails + cell.holds} ({words})")
    return "; ".join(told)


def validated(invariants: list[Invariant], traces: Sequence[Path]) -> list[Invariant]:
    """What no recording breaks; a general statement that one breaks is suppressed with the reason."""
    broken: dict[str, list[str]] = {}
    for trace in traces:
        follower = Follower(TraceFolder(trace), invariants)
        follower.check()
        for violation in follower.violations():
            broken.setdefault(violation.invariant, []).append(f"{trace.parent.name}/{trace.name}")
            seen = f"{violation.message}: {violation.seen}; {', '.join(violation.variables[:3])}"
            print(f"BROKEN        {violation.invariant} by {trace} at step {violation.first_step}: {seen}")
    kept = []
    for one in invariants:
        if one.id not in broken:
            kept.append(one)
        elif not relations()[one.relation].learns:
            reason = f"correct programs break it: {', '.join(sorted(set(broken[one.id])))}"
            kept.append(msgspec.structs.replace(one, suppressed=reason))
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--also", type=Path, action="append", default=[], help="further recordings to validate on")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    parser.add_argument("--no-record", action="store_true", help="leave out programs that are not recorded")
    parser.add_argument("--habits", action="store_true", help="also what programs agree in without having to")
    parser.add_argument(
        "--only", nargs="+", metavar="RELATION", help="leave the files of all other relations as they are"
    )
    given = parser.parse_args()
    jobs = jobs_of("healthy", given.traces.resolve())
    if not given.no_record:
        record(jobs)
    ready = [job.folder for job in jobs if recorded(job.folder) and any(job.folder.glob("rank-*.trace"))]
    missing = [job.folder.name for job in jobs if job.folder not in ready]
    out = set(heldout())
    kinds = {name: kind for name, kind in relations().items() if given.habits or not kind.learns}
    if given.only:
        kinds = {name: kinds[name] for name in given.only}
    programs = [Program(trace, list(kinds.values())) for trace in ready if trace.name not in out]
    others = [trace for trace in ready if trace.name in out]
    others += [trace for room in given.also for trace in sorted(room.iterdir()) if any(trace.glob("rank-*.trace"))]
    print(f"{len(programs)} programs, validated on {len(others)} other recordings; not recorded: {missing or 'none'}")
    invariants = validated(learnt(programs, kinds), others)
    by_relation: dict[str, list[Invariant]] = {}
    for one in invariants:
        by_relation.setdefault(one.relation, []).append(one)
    unseen = sorted(name for name, kind in kinds.items() if name not in by_relation and not kind.learns)
    print(
        f"{len(invariants)} invariants of {len(by_relation)} relations; never judged or not shipped: {unseen or 'none'}"
    )
    if not given.dry:
        write(by_relation, whole=not given.only)
    return int(any(one.suppressed for one in invariants))


def write(by_relation: Mapping[str, list[Invariant]], whole: bool) -> None:
    """Write one file for each relation; where all were built, remove those of relations that are gone."""
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.glob("*.jsonl"):
        if whole and file.stem not in by_relation:
            file.unlink()
    for name, found in by_relation.items():
        write_invariants(FOLDER / f"{name}.jsonl", found)


if __name__ == "__main__":
    sys.exit(main())
