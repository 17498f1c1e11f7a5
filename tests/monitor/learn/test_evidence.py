"""Evidence of parts put together is that of all at once, survives its bytes, and stays bounded."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.monitor.learn.evidence import (
    MOST_FIELD_VALUES,
    MOST_SUBJECTS,
    MOST_VALUES,
    Evidence,
    Observed,
    together,
)
from preflight.monitor.relation import UNSEEN, Example

pytestmark = pytest.mark.slow

CONTEXTS = st.dictionaries(
    st.sampled_from(["mode", "optimizer", "size"]),
    st.sampled_from(["train", "eval", True, None]) | st.integers(2, 40),
    max_size=3,
)
VALUES = st.just(UNSEEN) | st.integers(0, 12) | st.sampled_from(["float32", "float16"]) | st.lists(st.integers(0, 2))
SUBJECTS = st.tuples(st.sampled_from("abc"), st.sampled_from("xy"))
EXAMPLES = st.tuples(SUBJECTS, st.booleans(), CONTEXTS, VALUES).map(lambda all_: Example(*all_[:3], value=all_[3]))


def seen(examples: list[Example], first: int = 0) -> Observed:
    observed = Observed()
    for number, example in enumerate(examples, first):
        observed.see("relation", example, number)
    return observed


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EXAMPLES, max_size=80), st.lists(st.integers(0, 80), max_size=4))
def test_parts_put_together_are_all_at_once(examples: list[Example], cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(examples)]
    parts = [seen(examples[low:high], low) for low, high in itertools.pairwise(places)]
    whole = seen(examples).encoded()
    assert together(parts).encoded() == whole
    assert together(reversed(parts)).encoded() == whole
    assert together([together(parts[:2]), together(parts[2:])]).encoded() == whole


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EXAMPLES, max_size=40), st.lists(EXAMPLES, max_size=40))
def test_bytes_hold_all_of_it(first: list[Example], second: list[Example]) -> None:
    read = Observed.decoded(seen(first).encoded())
    assert read.encoded() == seen(first).encoded()
    assert read.merge(seen(second)).encoded() == seen(first).merge(seen(second)).encoded()


def test_a_field_with_many_values_is_forgotten() -> None:
    examples = [Example((), True, {"size": size, "mode": "train"}) for size in range(MOST_FIELD_VALUES + 1)]
    evidence = seen(examples)["relation"]
    assert evidence.dropped == {"size"}
    assert [(context, cell.holds) for context, cell in evidence.table().items()] == [
        ((("mode", "train"),), len(examples))
    ]


def test_neither_a_step_nor_a_list_is_a_condition() -> None:
    context: dict[str, Any] = {"step": 3, "iteration": 4, "ranks": [0, 1], "sizes": [1], "rate": 0.5, "mode": "eval"}
    evidence = seen([Example((), True, context)])["relation"]
    assert list(evidence.table()) == [(("mode", "eval"),)]


def test_many_values_are_not_kept() -> None:
    evidence = seen([Example((), True, {}, value=value) for value in range(MOST_VALUES + 1)])["relation"]
    assert [cell.values for cell in evidence.table().values()] == [None]


def test_surplus_subjects_are_counted_and_not_kept() -> None:
    evidence = seen([Example((number,), True, {}) for number in range(MOST_SUBJECTS + 7)])["relation"]
    assert len(evidence.subjects) == MOST_SUBJECTS
    assert evidence.surplus == 7


def test_iterations_are_counted_once() -> None:
    evidence = Evidence("relation")
    for window in (1, 1, 2, 3, 3):
        evidence.see(Example((), True, {}), window)
    assert evidence.windows() == 3
