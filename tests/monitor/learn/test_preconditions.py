"""Preconditions are sound, found again whatever the order, and no longer than they need to be."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.monitor.learn.evidence import Context
from preflight.monitor.learn.preconditions import (
    MOST_ALTERNATIVES,
    MOST_CLAUSES,
    Alternative,
    Count,
    in_words,
    precondition,
)
from preflight.vocabulary.invariant import Clause, Invariant

pytestmark = pytest.mark.slow

FIELDS = {
    "mode": st.sampled_from(["train", "eval"]),
    "autocast": st.sampled_from([None, "bfloat16", "float16"]),
    "closure": st.booleans(),
    "world": st.integers(1, 4),
}
CONTEXTS = st.fixed_dictionaries({}, optional=FIELDS).map(lambda fields: tuple(sorted(fields.items())))
COUNTS = st.builds(Count, st.integers(0, 9), st.integers(0, 2)).filter(any)
SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
TABLES = st.dictionaries(CONTEXTS, COUNTS, max_size=12)


def applies(alternatives: tuple[Alternative, ...], context: Context) -> bool:
    return Invariant(id="x", relation="x", precondition=alternatives).applies(dict(context))


@SLOW
@given(TABLES)
def test_nothing_that_failed_fulfils_it(table: dict[Context, Count]) -> None:
    found = precondition(table)
    if found is None:
        return
    assert len(found.alternatives) <= MOST_ALTERNATIVES
    assert all(0 < len(clauses) <= MOST_CLAUSES for clauses in found.alternatives)
    assert not any(count.fails for context, count in table.items() if applies(found.alternatives, context))
    fulfilled = {context: count for context, count in table.items() if applies(found.alternatives, context)}
    assert found.support == sum(count.holds for count in fulfilled.values()) > 0
    assert found.coverage == found.support / sum(count.holds for count in table.values())


@SLOW
@given(TABLES, st.randoms(use_true_random=False))
def test_the_order_does_not_matter(table: dict[Context, Count], order: random.Random) -> None:
    contexts = list(table)
    order.shuffle(contexts)
    assert precondition({context: table[context] for context in contexts}) == precondition(table)


@SLOW
@given(TABLES)
def test_no_alternative_and_no_clause_is_superfluous(table: dict[Context, Count]) -> None:
    found = precondition(table)
    if found is None or not found.alternatives:
        return
    good = [context for context, count in table.items() if count.holds and not count.fails]
    bad = [context for context, count in table.items() if count.fails]
    covered = {context for context in good if applies(found.alternatives, context)}
    for one in found.alternatives:
        others = tuple(other for other in found.alternatives if other is not one)
        assert not others or {context for context in good if applies(others, context)} != covered
        for clause in one:
            shorter = tuple(other for other in one if other is not clause)
            assert not shorter or any(applies((shorter,), context) for context in bad)


@SLOW
@given(st.dictionaries(CONTEXTS, st.builds(Count, st.integers(1, 9), st.just(0)), min_size=1, max_size=8))
def test_what_never_failed_needs_none(table: dict[Context, Count]) -> None:
    found = precondition(table)
    assert found is not None
    assert (found.alternatives, found.coverage) == ((), 1.0)


def table_of(*rows: tuple[dict[str, object], int, int]) -> dict[Context, Count]:
    return {tuple(sorted(context.items())): Count(holds, fails) for context, holds, fails in rows}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([({"closure": True}, 0, 3), ({"closure": False}, 5, 0)], "closure is false"),
        (
            [
                ({"optimizer": "LBFGS"}, 0, 3),
                ({"optimizer": "SGD"}, 5, 0),
                ({"optimizer": "Adam"}, 5, 0),
                ({"optimizer": "Muon"}, 5, 0),
            ],
            "optimizer is not LBFGS",
        ),
        (
            [({"optimizer": "LBFGS"}, 0, 3), ({"optimizer": "SGD"}, 5, 0), ({"optimizer": "Adam"}, 5, 0)],
            "optimizer is Adam or SGD",
        ),
        ([({"world": 1}, 2, 9), ({"world": 2}, 5, 0), ({"world": 4}, 5, 0)], "world is at least 2"),
        (
            [
                ({"mode": "train", "autocast": "bfloat16"}, 5, 0),
                ({"mode": "train", "autocast": None}, 0, 5),
                ({"mode": "eval", "autocast": "bfloat16"}, 0, 5),
            ],
            "autocast is bfloat16 and mode is train",
        ),
        (
            [({"a": 1, "b": "x"}, 5, 0), ({"a": 0, "b": "y"}, 5, 0), ({"a": 0, "b": "x"}, 0, 1), ({"a": 2}, 0, 1)],
            "a is 1, or b is y",
        ),
    ],
)
def test_what_is_found(rows: list[tuple[dict[str, object], int, int]], words: str) -> None:
    found = precondition(table_of(*rows))
    assert found is not None
    assert in_words(found.alternatives) == words
    assert found.coverage == 1 or any(fails and holds for _, holds, fails in rows)


def test_what_cannot_be_told_apart_has_none() -> None:
    assert precondition(table_of(({"mode": "train"}, 5, 1))) is None
    assert precondition({}) is None


def test_absent_is_a_word() -> None:
    assert in_words(((Clause("autocast", "is", None),),)) == "autocast is absent"
