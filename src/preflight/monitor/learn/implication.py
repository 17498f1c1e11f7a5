"""Implication: what a more general invariant says already is left out, and what rests on too little."""

from __future__ import annotations

from collections.abc import Iterable

from preflight.vocabulary.invariant import Clause, Invariant

_ABSENT = object()
_Said = tuple[str, frozenset[tuple[str, str]]]


def implied(general: Invariant, special: Invariant) -> bool:
    """Whether the first says all that the second says."""
    if general.relation != special.relation or general is special:
        return False
    if any(special.subject.get(field, _ABSENT) != value for field, value in general.subject.items()):
        return False
    if any(value in special.subject and value not in general.subject for value in ("value", "values")):
        return False
    return covers(general.precondition, special.precondition)


def covers(wide: tuple[tuple[Clause, ...], ...], narrow: tuple[tuple[Clause, ...], ...]) -> bool:
    """Whether a precondition is fulfilled wherever another is."""
    if not wide:
        return True
    return bool(narrow) and all(any(_within(clauses, wider) for wider in wide) for clauses in narrow)


def without_implied(invariants: Iterable[Invariant]) -> list[Invariant]:
    """The invariants that no other one implies, in their order; of two that say the same the plainer one."""
    given = list(invariants)
    said: dict[_Said, list[Invariant]] = {}
    shapes: dict[str, set[tuple[str, ...]]] = {}
    for one in given:
        keys = tuple(sorted(one.subject))
        shapes.setdefault(one.relation, set()).add(keys)
        said.setdefault(_said(one, keys), []).append(one)
    kept = []
    for one in given:
        # Only a statement with the same keys and values, or with some of them, can imply it.
        wider = (keys for keys in shapes[one.relation] if set(keys) <= set(one.subject))
        others = (other for keys in wider for other in said.get(_said(one, keys), ()))
        if not any(_rather(other, one) for other in others):
            kept.append(one)
    return kept


def _rather(other: Invariant, one: Invariant) -> bool:
    """Whether another one says all that one says, and is kept in its place."""
    if not implied(other, one):
        return False
    return not implied(one, other) or _plainness(other) < _plainness(one)


def _plainness(one: Invariant) -> tuple[int, int, int, str]:
    return len(one.subject), len(one.precondition), sum(map(len, one.precondition)), one.id


def _said(one: Invariant, keys: tuple[str, ...]) -> _Said:
    return one.relation, frozenset((key, repr(one.subject[key])) for key in keys)


def _within(narrow: tuple[Clause, ...], wide: tuple[Clause, ...]) -> bool:
    """Whether whatever fulfils the narrow conjunction fulfils the wide one."""
    return all(any(_stronger(clause, wanted) for clause in narrow) for wanted in wide)


def _stronger(clause: Clause, wanted: Clause) -> bool:
    """Whether a clause can only hold where another does."""
    if clause.field != wanted.field:
        return False
    if clause == wanted:
        return True
    values = [clause.value] if clause.is_ == "is" else list(clause.value) if clause.is_ == "one of" else None
    if values is not None:
        return all(wanted.holds({clause.field: value}) for value in values)
    if clause.is_ == wanted.is_ == "at least":
        return bool(clause.value >= wanted.value)
    if clause.is_ == wanted.is_ == "at most":
        return bool(clause.value <= wanted.value)
    return False
