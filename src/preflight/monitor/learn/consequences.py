"""Consequences: what follows from statements of other relations is left out, so that a person reads each thing once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from preflight.monitor import scope
from preflight.monitor.learn.implication import covers
from preflight.monitor.relation import Premise, Relation
from preflight.monitor.scope import MODEL
from preflight.vocabulary.invariant import Invariant


def without_following(invariants: Iterable[Invariant], kinds: Mapping[str, type[Relation]]) -> list[Invariant]:
    """The invariants that do not follow from others, in their order.

    A premise holds wherever what follows from it is said: it speaks of the same models or of all, and its precondition
    is no narrower. What follows from statements that follow themselves follows from those that are kept, because
    no relation's consequences lead back to it.
    """
    given = list(invariants)
    by_relation: dict[str, list[Invariant]] = {}
    for one in given:
        by_relation.setdefault(one.relation, []).append(one)
    return [one for one in given if not _follows(one, kinds.get(one.relation), by_relation)]


def _follows(one: Invariant, kind: type[Relation] | None, by_relation: Mapping[str, Sequence[Invariant]]) -> bool:
    if kind is None or not one.subject:
        return False
    return any(
        all(any(_grants(other, premise, one) for other in by_relation.get(premise.relation, ())) for premise in needed)
        for needed in kind.follows_from(one.subject)
    )


def _grants(other: Invariant, premise: Premise, one: Invariant) -> bool:
    """Whether an invariant says what a premise asks for, wherever the other one speaks."""
    if other is one:
        return False
    if MODEL in other.subject and not scope.covers(other.subject[MODEL], one.subject.get(MODEL, "")):
        return False
    if any(other.subject.get(field) != value for field, value in premise.subject.items()):
        return False
    return covers(other.precondition, one.precondition)
