"""Preconditions: the smallest readable condition that separates where something held from where it did not.

A precondition is a list of alternatives, each of at most three clauses. It is sound on the evidence: no context in which
anything failed fulfils it. Which one is found depends on the evidence alone, not on the order in which it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from preflight.monitor.learn.evidence import Context
from preflight.vocabulary.invariant import Clause, Comparison

MOST_CLAUSES = 3
MOST_ALTERNATIVES = 3
MOST_ONE_OF = 4
_MOST_TRIED = 4000
"""Conjunctions of one length that are carried on to the next."""

Alternative = tuple[Clause, ...]
_SIMPLE: dict[Comparison, int] = {"is": 0, "at least": 1, "at most": 1, "is not": 1, "one of": 2}


class Count(NamedTuple):
    """How often it held and failed in a context."""

    holds: int
    fails: int


class Precondition(NamedTuple):
    """What was found.

    Attributes:
        alternatives: The precondition; empty: always.
        support: In how many examples it held where the precondition is fulfilled.
        coverage: Which share of all examples that held these are.
        contexts: How many different contexts fulfil it.
    """

    alternatives: tuple[Alternative, ...]
    support: int
    coverage: float
    contexts: int


class _Tried(NamedTuple):
    """A conjunction: which contexts fulfil it, as bits."""

    mask: int
    clauses: tuple[int, ...]


def precondition(table: Mapping[Context, Count]) -> Precondition | None:
    """Find the precondition of a table of contexts; None when none separates any of what held from what failed."""
    contexts = sorted(table, key=_text)
    counts = [table[context] for context in contexts]
    held = sum(count.holds for count in counts)
    if not held:
        return None
    if not any(count.fails for count in counts):
        return Precondition((), held, 1.0, len(contexts))
    good = _mask(count.holds > 0 and not count.fails for count in counts)
    bad = _mask(count.fails > 0 for count in counts)
    if not good:
        return None
    clauses, masks = _clauses([dict(context) for context in contexts], good, bad)
    chosen = _cover(clauses, masks, good, bad, [count.holds for count in counts])
    if not chosen:
        return None
    covered = 0
    for one in chosen:
        covered |= one.mask
    support = sum(count.holds for place, count in enumerate(counts) if covered >> place & 1)
    alternatives = tuple(tuple(clauses[number] for number in one.clauses) for one in chosen)
    return Precondition(alternatives, support, support / held, (covered & good).bit_count())


def _mask(bits: Iterable[bool]) -> int:
    return sum(1 << place for place, bit in enumerate(bits) if bit)


def _clauses(contexts: Sequence[Mapping[str, Any]], good: int, bad: int) -> tuple[list[Clause], list[int]]:
    """The clauses that may be used, the simplest of those that say the same of these contexts."""
    fields = sorted({field for context in contexts for field in context})
    candidates = [clause for field in fields for clause in _of_field(field, contexts, good, bad)]
    candidates.sort(key=lambda clause: (_SIMPLE[clause.is_], clause.field, _text(clause.value), clause.is_))
    clauses: list[Clause] = []
    masks: list[int] = []
    known: set[int] = set()
    for clause in candidates:
        mask = _mask(clause.holds(context) for context in contexts)
        if mask & good and ~mask & bad and mask not in known:
            known.add(mask)
            clauses.append(clause)
            masks.append(mask)
    return clauses, masks


def _of_field(field: str, contexts: Sequence[Mapping[str, Any]], good: int, bad: int) -> list[Clause]:
    """The clauses of one field.

    What failed with few values of many is told by what it is not; what held with few, by what it is.
    """
    fine = _values(field, contexts, good)
    wrong = _values(field, contexts, bad)
    both = [value for value in fine if value not in wrong]
    found = [Clause(field, "is", value) for value in both or fine]
    if all(type(value) is bool for value in fine + wrong):
        return found
    found += [Clause(field, "is", value) for value in fine if value not in both]
    only_wrong = [value for value in wrong if value not in fine]
    if len(fine) >= 3 or any(field not in context for context in contexts):
        found += [Clause(field, "is not", value) for value in only_wrong]
    if 1 < len(both) <= MOST_ONE_OF:
        found.append(Clause(field, "one of", both))
    numbers = sorted(value for value in fine + wrong if type(value) is int)
    if numbers and len(numbers) == len(fine) + len(wrong):
        fit = sorted(set(numbers) & set(fine))
        found += [Clause(field, "at least", value) for value in fit[1:]] + [
            Clause(field, "at least", value) for value in fit[:1] if value > numbers[0]
        ]
        found += [Clause(field, "at most", value) for value in fit if value < numbers[-1]]
    return found


def _values(field: str, contexts: Sequence[Mapping[str, Any]], mask: int) -> list[Any]:
    """The values of a field in the contexts of a mask, in order."""
    seen = {
        (type(context[field]).__name__, context[field]): context[field]
        for place, context in enumerate(contexts)
        if mask >> place & 1 and field in context
    }
    return [seen[key] for key in sorted(seen, key=_text)]


def _cover(clauses: list[Clause], masks: list[int], good: int, bad: int, weights: list[int]) -> list[_Tried]:
    """Choose conjunctions that no bad context fulfils until all good ones are covered or nothing is gained."""
    pure = _pure(masks, good, bad)
    chosen: list[_Tried] = []
    left = good
    while left and len(chosen) < MOST_ALTERNATIVES:
        best = min(
            (one for one in pure if one.mask & left),
            key=lambda one: (*_worth(one, left, weights), [_SIMPLE[clauses[n].is_] for n in one.clauses], one.clauses),
            default=None,
        )
        if best is None:
            break
        chosen.append(best)
        left &= ~best.mask
    return _needed(chosen, good)


def _worth(one: _Tried, left: int, weights: list[int]) -> tuple[float, int, int]:
    """What is gained, the most first: everything that is left in few clauses, otherwise most contexts, then examples."""
    gained = one.mask & left
    missing = (left & ~one.mask).bit_count()
    weight = sum(weights[place] for place in range(gained.bit_length()) if gained >> place & 1)
    return missing, len(one.clauses), -weight


def _needed(chosen: list[_Tried], good: int) -> list[_Tried]:
    """Leave out alternatives that others cover together."""
    kept = list(chosen)
    for one in sorted(chosen, key=lambda tried: (-len(tried.clauses), tried.clauses)):
        rest = 0
        for other in kept:
            if other is not one:
                rest |= other.mask
        if len(kept) > 1 and not one.mask & good & ~rest:
            kept.remove(one)
    return sorted(kept, key=lambda tried: tried.clauses)


def _pure(masks: list[int], good: int, bad: int) -> list[_Tried]:
    """The shortest conjunctions that no bad context and some good one fulfil."""
    pure: list[_Tried] = []
    current = [_Tried(mask, (number,)) for number, mask in enumerate(masks)]
    for length in range(1, MOST_CLAUSES + 1):
        mixed: dict[int, _Tried] = {}
        for one in current:
            if not one.mask & bad:
                pure.append(one)
            else:
                mixed.setdefault(one.mask, one)
        if length == MOST_CLAUSES:
            break
        carried = list(mixed.values())[:_MOST_TRIED]
        longer: dict[int, _Tried] = {}
        for one in carried:
            for number in range(one.clauses[-1] + 1, len(masks)):
                mask = one.mask & masks[number]
                if mask & good and mask != one.mask:
                    longer.setdefault(mask, _Tried(mask, (*one.clauses, number)))
        current = list(longer.values())
    return pure


def in_words(alternatives: Iterable[Alternative]) -> str:
    """A precondition in words; empty where there is none."""
    return ", or ".join(" and ".join(_clause(clause) for clause in clauses) for clauses in alternatives)


def _clause(clause: Clause) -> str:
    field = clause.field.replace("_", " ")
    if type(clause.value) is bool and clause.is_ in ("is", "is not"):
        return f"{field} is {'true' if clause.value == (clause.is_ == 'is') else 'false'}"
    if clause.is_ == "one of":
        return f"{field} is {' or '.join(map(_value, clause.value))}"
    return f"{field} {clause.is_ if clause.is_ in ('is', 'is not') else 'is ' + clause.is_} {_value(clause.value)}"


def _value(value: Any) -> str:
    if value is None:
        return "absent"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
