"""Several runs: learn from all of them, and keep what a run that was left out of the learning does not break."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from preflight.monitor.learn.consequences import without_following
from preflight.monitor.learn.evidence import Cell, Evidence, Table, together
from preflight.monitor.learn.implication import without_implied
from preflight.monitor.learn.statements import Subject, broken_by, key_of, of_subject, statements
from preflight.monitor.relation import Relation
from preflight.vocabulary.invariant import Invariant

MOST_FOLDS = 5
"""Into how many parts runs are put that are left out in turn."""


class Stable(NamedTuple):
    """What was learnt of several runs.

    Attributes:
        invariants: What holds in all of them and would have been learnt without any of them.
        unstable: How many statements were dropped because a run that was left out breaks what the others say.
        unconfirmed: How many were dropped because one run alone speaks of them.
        broken: Relations without names of subjects that no precondition saves: in how many examples they failed.
        speak: By the id of an invariant, which runs gave something to judge of it.
    """

    invariants: list[Invariant]
    unstable: int
    unconfirmed: int
    broken: dict[str, int]
    speak: dict[str, tuple[int, ...]]


def learn(
    runs: Sequence[Mapping[str, Evidence]],
    kinds: Mapping[str, type[Relation]],
    base: Mapping[str, Sequence[Invariant]] | None = None,
    least_runs: int = 2,
) -> Stable:
    """Learn from the evidence of runs.

    Args:
        runs: The evidence of each run by relation.
        kinds: The relations by name.
        base: General statements that are known, by relation.
        least_runs: Of how many runs a statement about a named subject rests at least, where there are as many that
            train the same models.
    """
    whole = runs[0] if len(runs) == 1 else together(runs)
    found: list[Invariant] = []
    broken: dict[str, int] = {}
    tally = {"stable": 0, "unstable": 0, "unconfirmed": 0}
    for name in sorted(set(whole) & set(kinds)):
        kind = kinds[name]
        if not kind.learns:
            said = statements(kind, whole[name], (base or {}).get(name, ()))
            found += said
            if not said:
                broken[name] = sum(cell.fails for cell in whole[name].table().values())
            continue
        if len(runs) < kind.runs:
            continue
        of_runs = [run[name] for run in runs if name in run]
        found += _of_programs(kind, whole[name], of_runs, least_runs, tally)
    without = without_following(without_implied(found), kinds)
    speak = {one.id: _speaking(kinds[one.relation], one, runs) for one in without}
    return Stable(without, tally["unstable"], tally["unconfirmed"], {name: n for name, n in broken.items() if n}, speak)


def _speaking(kind: type[Relation], one: Invariant, runs: Sequence[Mapping[str, Evidence]]) -> tuple[int, ...]:
    """The runs that judged what an invariant says."""
    subject = key_of(kind, one) if kind.learns else None
    return tuple(
        place
        for place, run in enumerate(runs)
        if kind.name in run and (subject is None or subject in run[kind.name].subjects)
    )


def _of_programs(
    kind: type[Relation],
    whole: Evidence,
    runs: Sequence[Evidence],
    least_runs: int,
    tally: dict[str, int],
) -> list[Invariant]:
    """Statements about the training of certain models, where the runs that train them agree."""
    found: list[Invariant] = []
    verdicts: dict[Subject, str] = {}
    scopes = Counter(scope for run in runs for scope in {_scope(kind, subject) for subject in run.subjects})
    for one in statements(kind, whole):
        subject = key_of(kind, one)
        verdict = verdicts.get(subject)
        if verdict is None:
            least = max(min(least_runs, scopes[_scope(kind, subject)]), kind.runs)
            verdict = verdicts[subject] = _verdict(kind, subject, runs, least)
        found += [one] if verdict == "stable" else []
        tally[verdict] += 1
    return found


def _scope(kind: type[Relation], subject: Subject) -> Any:
    """The models that a subject is of; None where it is not of certain ones."""
    return subject[-1] if len(subject) > len(kind.fields) else None


def _verdict(kind: type[Relation], subject: Subject, runs: Sequence[Evidence], least_runs: int) -> str:
    tables: list[Table] = [run.subjects[subject].cells for run in runs if subject in run.subjects]
    if len(tables) < least_runs:
        return "unconfirmed"
    if len(tables) < 2:
        return "stable"
    return "stable" if _agree(kind, subject, tables) else "unstable"


def _agree(kind: type[Relation], subject: Subject, tables: Sequence[Table]) -> bool:
    """Whether no part breaks what the others say of a subject."""
    folds = [tables[start::MOST_FOLDS] for start in range(min(MOST_FOLDS, len(tables)))]
    for left_out, fold in enumerate(folds):
        others = _joined([table for number, other in enumerate(folds) if number != left_out for table in other])
        learnt = of_subject(kind, subject, others)
        if any(broken_by(kind, one, table) for one in learnt for table in fold):
            return False
    return True


def _joined(tables: Sequence[Table]) -> Table:
    joined: Table = {}
    for table in tables:
        for context, cell in table.items():
            joined.setdefault(context, Cell()).add(cell)
    return joined
