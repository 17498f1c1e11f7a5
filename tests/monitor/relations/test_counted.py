"""What is counted stands in the singular where there is one of it."""

from __future__ import annotations

import re

import pytest

from preflight.monitor.judging.examples import Examples
from preflight.monitor.relation import Relation, relations
from preflight.vocabulary.counted import counted

ONE = re.compile(
    r"(?<![\w.:])1 (?:backward |frozen |trained |first |different )?(?!as\b|is\b|was\b|has\b|us\b)[a-z]+(?<!s)s\b"
)
"""A one before a word in the plural; a word that ends with two of them (pass, loss) is none."""


@pytest.mark.parametrize("kind", relations().values(), ids=relations())
def test_an_alarm_about_one_thing_counts_one(kind: type[Relation]) -> None:
    said = []
    for windows in kind.broken():
        examples = Examples([kind])
        judged = [found for window in windows for found in examples.see(window)] + examples.finish()
        told = [one for _, found, _ in judged for one in found if not one.holds]
        said += [str(text) for one in told for text in (one.expected, one.seen, one.detail) if text]
    assert not [text for text in said if ONE.search(text)]


@pytest.mark.parametrize("text", ["1 parameters were changed", "of 1 backward passes", "after 1 steps"])
def test_a_plural_would_be_found(text: str) -> None:
    assert ONE.search(text)
    assert not ONE.search(text.replace("1 ", "21 "))


def test_words_follow_their_number() -> None:
    assert [counted(number, "step") for number in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]
    assert counted(2, "pass", "passes") == "2 passes"
