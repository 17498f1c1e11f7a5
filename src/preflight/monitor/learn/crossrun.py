"""Several runs: learn from all of them, and keep what a run that was left out of the learning does not break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from preflight.monitor.learn.evidence import Cell, Evidence, Table, together
from preflight.monitor.learn.implication import without_implied
from preflight.monitor.learn.statements import Subject, broken_by, of_subject, statements
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
    """

    invariants: list[Invariant]
    unstable: int
    unconfirmed: int
    broken: dict[str, int]


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
        least_runs: Of how many runs a statement about a named subject rests at least, where there are as many.
    """
    whole = runs[0] if len(runs) == 1 else together(runs)
    found: list[Invariant] = []
    broken: dict[str, int] = {}
    unstable = unconfirmed = 0
    for name in sorted(set(whole) & set(kinds)):
        kind = kinds[name]
        said = statements(kind, whole[name], (base or {}).get(name, ()))
        if not kind.learns:
            found += said
            if not said:
                broken[name] = sum(cell.fails for cell in whole[name].table().values())
            continue
        of_runs = [run[name] for run in runs if name in run]
        verdicts: dict[Subject, str] = {}
        for one in said:
            subject = _subject(kind, one)
            verdict = verdicts.get(subject)
            if verdict is None:
                verdict = verdicts[subject] = _verdict(kind, subject, of_runs, min(least_runs, len(runs)))
            found += [one] if verdict == "stable" else []
            unstable += verdict == "unstable"
            unconfirmed += verdict == "unconfirmed"
    return Stable(without_implied(found), unstable, unconfirmed, {name: n for name, n in broken.items() if n})


def _subject(kind: type[Relation], invariant: Invariant) -> Subject:
    from preflight.monitor.keys import frozen

    return tuple(frozen(invariant.subject[field]) for field in kind.fields if field in invariant.subject)


def _verdict(kind: type[Relation], subject: Subject, runs: Sequence[Evidence], least_runs: int) -> str:
    tables: list[Table] = [run.subjects[subject].cells for run in runs if subject in run.subjects]
    if len(tables) < least_runs:
        return "unconfirmed"
    if len(tables) < 2:
        return "stable"
    folds = [tables[start::MOST_FOLDS] for start in range(min(MOST_FOLDS, len(tables)))]
    for left_out, fold in enumerate(folds):
        others = _joined([table for number, other in enumerate(folds) if number != left_out for table in other])
        learnt = of_subject(kind, subject, others)
        if any(broken_by(one, table) for one in learnt for table in fold):
            return "unstable"
    return "stable"


def _joined(tables: Sequence[Table]) -> Table:
    joined: Table = {}
    for table in tables:
        for context, cell in table.items():
            joined.setdefault(context, Cell()).add(cell)
    return joined
