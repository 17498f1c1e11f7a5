"""What was found in a recorded run, as a report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from preflight.monitor.follow import Follower
from preflight.monitor.learnt_elsewhere import of_another_program
from preflight.monitor.relation import relations
from preflight.monitor.series import Marks, Watching
from preflight.monitor.trace.gaps import gaps
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import Evidence, Location, Related
from preflight.vocabulary.invariant import Invariant, Violation
from preflight.vocabulary.report import SCHEMA, Report, Tool, Verdict
from preflight.vocabulary.trace import TraceGap
from preflight.vocabulary.version import VERSION
from preflight.vocabulary.watched import HeldMemory, NotJudged, Series, Watched

MOST_RELATED = 20
MOST_NOTES = 12
MOST_STARTS = 8


def report_of(follower: Follower, invariants: Sequence[Invariant], command: str) -> Report:
    """Return the report of what a follower has judged so far."""
    violations = with_evidence(follower.violations())
    watched = watched_of(follower, invariants)
    facts = _facts(follower, watched)
    return Report(
        schema=SCHEMA,
        command=command,
        tool=Tool("preflight", VERSION),
        verdict=verdict_of(violations, watched),
        inputs={"path": str(follower.folder.path)},
        violations=tuple(violations),
        watched=watched,
        facts=facts,
        notes=tuple(notes_of(watched, follower, invariants)),
    )


def together(reports: Sequence[Report], command: str) -> Report:
    """Return one report of several traces: the worst verdict, and each of them."""
    from preflight.vocabulary.report import VERDICT_ORDER

    if len(reports) == 1:
        return reports[0]
    last = 0
    found: list[Violation] = []
    for report in reports:
        found += [msgspec.structs.replace(one, group=one.group + last) for one in report.violations]
        last = max([last, *(one.group for one in found)])
    return Report(
        schema=SCHEMA, command=command, tool=Tool("preflight", VERSION),
        verdict=min((report.verdict for report in reports), key=VERDICT_ORDER.__getitem__),
        inputs={"paths": [report.inputs["path"] for report in reports]},
        violations=tuple(found), scripts=tuple(reports),
    )  # fmt: skip


def verdict_of(violations: Sequence[Violation], watched: Watched) -> Verdict:
    """NO-GO for a violation that decides, UNKNOWN where nothing, not everything or no training was judged, else GO."""
    if any(one.decides for one in violations):
        return "NO-GO"
    whole = not watched.not_judged and all(gap.what not in ("unjudged", "lost") for gap in watched.gaps)
    return "GO" if watched.examples and watched.steps and whole else "UNKNOWN"


def with_evidence(violations: Sequence[Violation]) -> list[Violation]:
    """Return the violations with what was expected and seen as evidence, and in each root those that belong to it."""
    members: dict[int, list[Violation]] = {}
    for one in violations:
        members.setdefault(one.group, []).append(one)
    told = []
    for one in violations:
        evidence = _evidence(one)
        others = members[one.group][1:] if members[one.group][0] is one else []
        related = tuple(Related(_nearer(other.location), other.message) for other in others[:MOST_RELATED])
        told.append(msgspec.structs.replace(one, evidence=evidence, related=related, location=_nearer(one.location)))
    return told


def _nearer(at: Location) -> Location:
    """Return a place with its path as it is reached from here, where it is below this folder."""
    if at.path is None or not os.path.isabs(at.path):
        return at
    relative = os.path.relpath(at.path)
    return at if relative.startswith("..") else msgspec.structs.replace(at, path=relative)


def _evidence(one: Violation) -> tuple[Evidence, ...]:
    """Return what was seen, and beside it what was expected."""
    if one.expected is None and one.seen is None:
        return ()
    seen = "something else" if one.seen is None else plain_text(one.seen)
    expected = None if one.expected is None else f"expected {plain_text(one.expected)}"
    return (Evidence(seen, arithmetic=expected),) if expected else (Evidence("value", seen),)


def plain_text(value: Any) -> str:
    """Return a value as a person reads it."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def watched_of(follower: Follower, invariants: Sequence[Invariant]) -> Watched:
    """Return what was recorded and held against the invariants."""
    judged = follower.judged()
    active = [one for one in invariants if one.suppressed is None]
    unknown = sorted({one.relation for team in follower.teams for one in team.engine.unknown})
    width, marks = _marks(follower)
    watching = [team.watching for team in follower.teams]
    steps = max((one.steps for one in watching), default=0)
    iterations = max((process.iteration + 1 for process in follower.folder.processes), default=0)
    return Watched(
        iterations=iterations,
        steps=steps,
        ranks=tuple(sorted({rank for one in watching for rank in one.ranks})),
        world_size=max((one.world for one in watching), default=None),
        examples=sum(judged.values()),
        in_force=len(active),
        judged=sum(1 for one in active if judged.get(one.id)),
        not_triggered=tuple(sorted(one.id for one in active if not judged.get(one.id))),
        suppressed_invariants=len(invariants) - len(active),
        suppressed_violations=follower.suppressed(),
        unknown_relations=tuple(unknown),
        not_judged=tuple(NotJudged(*one) for one in follower.failures()),
        marks=marks,
        mark_width=width,
        series=_series([one.series() for one in watching]),
        memory=_memory(watching),
        gaps=tuple(gaps(follower.folder)),
    )


def _memory(watching: Sequence[Watching]) -> tuple[HeldMemory, ...]:
    """Return the most that was held in any training of the program."""
    most: dict[tuple[int, str], HeldMemory] = {}
    for held in (one for training in watching for one in training.memory()):
        known = most.setdefault((held.rank, held.device), held)
        if held.peak_bytes > known.peak_bytes:
            most[held.rank, held.device] = held
    return tuple(most[key] for key in sorted(most))


def _series(of_teams: Sequence[tuple[Series, ...]]) -> tuple[Series, ...]:
    """Return the curves of the team that has most of them."""
    return tuple(_named(one) for one in sorted(of_teams, key=len)[-1]) if of_teams else ()


def _named(series: Series) -> Series:
    """Return a curve whose place in the code is named as it is reached from here."""
    path, colon, line = series.subject.rpartition(":")
    if not colon or not line.isdigit():
        return series
    return msgspec.structs.replace(series, subject=f"{_nearer(Location(path=path)).path}:{line}")


def _marks(follower: Follower) -> tuple[int, Any]:
    found: list[Marks] = [team.engine.groups.marks for team in follower.teams]
    best = max(found, key=lambda one: len(one.marks()), default=None)
    return (1, ()) if best is None else (best.width, best.marks())


def _facts(follower: Follower, watched: Watched) -> dict[str, Fact]:
    run = follower.folder.run
    begins = [process.facts for process in follower.folder.processes if process.role == "trainer" and process.facts]
    begin = begins[0] if begins else {}
    facts: dict[str, Fact] = {}

    def put(name: str, value: Any, how: str | None = None, reason: str | None = None) -> None:
        facts[name] = Fact(value, how=how, reason=reason if value is None else None)

    no_rows = "no process has written a row"
    put("program", run.program if run is not None else None, "run.json", follower.folder.run_problem)
    put("framework", f"torch {begin['torch']}" if begin.get("torch") else None, "trace", no_rows)
    put("python", begin.get("python"), "trace", no_rows)
    put("world_size", watched.world_size, "trace", no_rows)
    put("steps", watched.steps, "trace")
    put("iterations", watched.iterations, "trace")
    put("ranks", list(watched.ranks), "trace")
    if run is not None:
        put("exit_code", run.exit_code, "run.json", "the launcher has not seen the program end")
        for name, value in sorted(run.recorded.items()):
            put(f"recorded.{name}", value, "run.json", "it was not limited")
    put("thinned", _thinned(watched.gaps), "trace")
    put("invariants.in_force", watched.in_force)
    put("invariants.judged", watched.judged)
    put("invariants.examples", watched.examples)
    if watched.suppressed_invariants:
        put("invariants.suppressed", watched.suppressed_invariants)
        put("violations.suppressed", watched.suppressed_violations)
    return facts


def _thinned(found: Sequence[TraceGap]) -> str:
    times = sum(one.what == "thinned" for one in found)
    return "nothing" if not times else f"{'once' if times == 1 else f'{times} times'}, see the remarks"


def notes_of(watched: Watched, follower: Follower, invariants: Sequence[Invariant]) -> list[str]:
    """Return what else is to be known of a run that was watched: what was not judged, and what is missing in the trace."""
    notes = []
    if not watched.examples:
        notes.append(_why_nothing(watched, follower))
    elif not watched.steps:
        notes.append("no optimizer step was recorded: whatever changes the parameters, if anything, was not judged")
    unseen = sorted({index for team in follower.teams for index in team.watching.unseen()})
    if unseen:
        names = ", ".join(f"optimizer{index}" for index in unseen)
        notes.append(
            f"what {names} holds has changed, and no step of it was recorded: steps that are compiled, or made by hand, "
            "are not seen, and what speaks of steps was not judged of them"
        )
    trained = [team.watching.steps for team in follower.teams if team.watching.steps]
    if len(trained) > 1:
        said = ", ".join(f"{steps:,}" for steps in trained[:MOST_STARTS]) + (
            " ..." if len(trained) > MOST_STARTS else ""
        )
        notes.append(
            f"{len(trained)} trainings were recorded, each judged as one: {said} steps; figures are those of the longest"
        )
    if watched.unknown_relations:
        notes.append(f"relations that this version does not know: {', '.join(watched.unknown_relations)}")
    notes += list(map(_not_judged, watched.not_judged)) + _left_open(watched, invariants)
    runs = [team.watching.run for team in follower.teams if team.watching.run is not None and team.watching.steps]
    notes += of_another_program(runs, invariants, watched.not_triggered)
    if watched.suppressed_violations:
        word = "alarm" if watched.suppressed_violations == 1 else "alarms"
        notes.append(f"{watched.suppressed_violations} {word} of suppressed invariants not shown")
    told = _remarks(watched.gaps)
    notes += told[:MOST_NOTES]
    if len(told) > MOST_NOTES:
        notes.append(f"and {len(told) - MOST_NOTES} other remarks on the trace, in the JSON report")
    return notes


def _not_judged(one: NotJudged) -> str:
    rank = "" if one.rank is None else f" of rank {one.rank}"
    return f"{one.relation} is not judged from iteration {one.iteration}{rank} on: it failed with {one.error}"


def _left_open(watched: Watched, invariants: Sequence[Invariant]) -> list[str]:
    """Say which predictions got no answer: a run that was not held against one is not as predicted."""
    open_, told = set(watched.not_triggered), []
    for name, kind in relations().items():
        said = [one for one in invariants if one.relation == name and one.suppressed is None] if kind.predicted else []
        left = sum(one.id in open_ for one in said)
        if left:
            share = "" if len(said) == 1 else f" for {left} of {len(said)} predictions"
            told.append(f"{name} judged nothing{share}: {kind.unjudged}")
    return told


def _remarks(gaps: Sequence[TraceGap]) -> list[str]:
    """Return what is missing in a trace; of what was thinned again and again the last word, which holds from there on."""
    thinned = [gap for gap in gaps if gap.what == "thinned"]
    last = {(gap.pid, gap.rank, gap.part): gap for gap in thinned}
    told = [gap.text for gap in gaps if gap.what != "thinned"]
    for key, gap in last.items():
        before = sum((one.pid, one.rank, one.part) == key for one in thinned) - 1
        told.append(gap.text + (f" (thinned {before} {'time' if before == 1 else 'times'} before)" if before else ""))
    return told


def _why_nothing(watched: Watched, follower: Follower) -> str:
    if not watched.in_force:
        return "no invariant is in force"
    if not follower.folder.processes:
        return "nothing was recorded, so nothing could be judged"
    if not watched.steps:
        return "no optimizer step was recorded, so nothing could be judged"
    return "nothing of what was recorded could be held against an invariant"
