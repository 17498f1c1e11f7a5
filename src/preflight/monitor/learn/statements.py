"""Statements: from what was seen of a relation to the invariants that fit all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from preflight.monitor.keys import frozen, thawed
from preflight.monitor.learn.evidence import Cell, Context, Evidence, Table
from preflight.monitor.learn.identity import identity
from preflight.monitor.learn.preconditions import MOST_ONE_OF, Alternative, Count, Precondition, precondition
from preflight.monitor.learn.sentences import sentence
from preflight.monitor.relation import Relation
from preflight.monitor.scope import MODEL
from preflight.vocabulary.invariant import Clause, Invariant

Subject = tuple[Any, ...]


def statements(kind: type[Relation], evidence: Evidence, base: Sequence[Invariant] = ()) -> list[Invariant]:
    """The invariants of a relation that fit the evidence.

    Args:
        kind: The relation.
        evidence: What was seen.
        base: General statements that are known of the relation; what is learnt is not wider than they are.
    """
    if not kind.learns:
        return list(_general(kind, evidence, base))
    found: list[Invariant] = []
    for subject, seen in evidence.subjects.items():
        if seen.windows >= kind.least:
            found += _of_subject(kind, subject, seen.cells, kind.support)
    return found


def of_subject(kind: type[Relation], subject: Subject, table: Table, least: int = 1) -> list[Invariant]:
    """The invariants about one subject that fit a table, and rest on so many examples."""
    return list(_of_subject(kind, subject, table, least))


def named(kind: type[Relation], subject: Subject) -> dict[str, Any]:
    """The parts of a subject by their names; one that is not of a single program has no last part."""
    return {field: thawed(value) for field, value in zip((*kind.fields, MODEL), subject, strict=False)}


def key_of(kind: type[Relation], invariant: Invariant) -> Subject:
    """The subject that an invariant speaks of, as a key of the evidence."""
    return tuple(frozen(invariant.subject[field]) for field in (*kind.fields, MODEL) if field in invariant.subject)


def broken_by(kind: type[Relation], invariant: Invariant, table: Mapping[Context, Cell]) -> int:
    """In how many examples of a table an invariant does not hold."""
    wanted = values_of(invariant)

    def allows(value: Any) -> bool:
        if kind.bounded:
            return kind.expected_of(invariant.subject, thawed(value)) is None
        return wanted is not None and value in wanted

    count = 0
    for context, cell in table.items():
        if not invariant.applies(dict(context)):
            continue
        if wanted is None:
            count += cell.fails
        elif cell.values is None:
            count += 1
        else:
            count += sum(number for value, number in cell.values.items() if not allows(value))
    return count


def values_of(invariant: Invariant) -> set[Any] | None:
    """The values that an invariant allows, as keys; None where it speaks of none."""
    if "value" in invariant.subject:
        return {frozen(invariant.subject["value"])}
    if "values" in invariant.subject:
        return {frozen(value) for value in invariant.subject["values"]}
    return None


def counts(table: Table) -> dict[Context, Count]:
    """A table without its values."""
    return {context: Count(cell.holds, cell.fails) for context, cell in table.items()}


def _valued(table: Table) -> bool:
    return any(cell.values is None or cell.values for cell in table.values())


def _general(kind: type[Relation], evidence: Evidence, base: Sequence[Invariant]) -> Iterator[Invariant]:
    table = evidence.table()
    if _valued(table):
        yield from _of_subject(kind, (), table, least=1)
        return
    for known in base or (None,):
        inside = {
            context: count for context, count in counts(table).items() if known is None or known.applies(dict(context))
        }
        found = precondition(inside)
        if found is not None:
            narrowed = _both(known.precondition if known is not None else (), found.alternatives)
            yield _invariant(kind, {}, narrowed, found.support)


def _both(first: tuple[Alternative, ...], second: tuple[Alternative, ...]) -> tuple[Alternative, ...]:
    """Alternatives that hold where both hold."""
    if not first or not second:
        return first or second
    return tuple(tuple(dict.fromkeys((*one, *other))) for one in first for other in second)


def _of_subject(kind: type[Relation], subject: Subject, table: Table, least: int) -> Iterator[Invariant]:
    fields = named(kind, subject)
    if _valued(table):
        yield from (one for one in _with_values(kind, fields, table, least) if not kind.trivial(one.subject))
        return
    found = precondition(counts(table))
    if found is not None and found.support >= least and not kind.trivial(fields):
        yield _invariant(kind, fields, found.alternatives, found.support)


def _with_values(kind: type[Relation], fields: dict[str, Any], table: Table, least: int) -> Iterator[Invariant]:
    """One value where there is one, each value with its precondition where they can be told apart, or a few."""
    totals: dict[Any, int] = {}
    for cell in table.values():
        for value, number in (cell.values or {}).items():
            totals[value] = totals.get(value, 0) + number
    many = any(cell.values is None for cell in table.values())
    explained = 0
    for value in sorted(totals, key=repr):
        found = _one_value(table, value)
        if found is not None and found.support >= least:
            explained += found.support
            said = _seen_only(kind, found.alternatives, table)
            yield _invariant(kind, {**fields, "value": thawed(value)}, said, found.support)
    support = sum(totals.values())
    few = len(totals) <= MOST_ONE_OF and min(totals.values(), default=0) >= max(least, support // 20)
    if not many and few and explained < support and len(totals) > 1:
        values = [thawed(value) for value in sorted(totals, key=repr)]
        yield _invariant(kind, {**fields, "values": values}, _seen_only(kind, (), table), support)


def _one_value(table: Table, value: Any) -> Precondition | None:
    """When a value was seen and no other one."""
    split: dict[Context, Count] = {}
    for context, cell in table.items():
        alone = cell.values is not None and set(cell.values) == {value}
        split[context] = Count(cell.holds, 0) if alone else Count(0, max(cell.holds, 1))
    return precondition(split)


def _seen_only(kind: type[Relation], alternatives: tuple[Alternative, ...], table: Table) -> tuple[Alternative, ...]:
    """A precondition that claims nothing for values, of the fields of which this is asked, that were never seen."""
    narrowed = []
    for clauses in alternatives or ((),):
        inside = [context for context in map(dict, table) if all(clause.holds(context) for clause in clauses)]
        said = {clause.field for clause in clauses}
        for field in kind.asked:
            values = sorted({context[field] for context in inside if field in context}, key=repr)
            if field not in said and 0 < len(values) <= MOST_ONE_OF:
                one = len(values) == 1
                clauses = (*clauses, Clause(field, "is" if one else "one of", values[0] if one else values))
        narrowed.append(clauses)
    return () if narrowed == [()] else tuple(narrowed)


def _invariant(
    kind: type[Relation], subject: dict[str, Any], alternatives: tuple[Alternative, ...], support: int
) -> Invariant:
    return Invariant(
        id=identity(kind.name, subject, alternatives),
        relation=kind.name,
        subject=subject,
        precondition=alternatives,
        text=sentence(kind, subject, alternatives),
        support=support,
        severity=kind.severity,
    )
