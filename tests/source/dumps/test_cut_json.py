"""JSON that was cut off."""

from __future__ import annotations

import json

import pytest

from preflight.source.dumps.cut_json import salvage

WHOLE = {"a": [1, {"b": "x, ]"}, [2, 3]], "c": {"d": None}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2', {"a": [1]}),
        ('{"a": {"b": 1}, "c": {"d": 2', {"a": {"b": 1}}),
        ('[{"a": 1}, {"b": "cut', [{"a": 1}]),
        ("[1, 2] and more", [1, 2]),
        ("no JSON", None),
        ("", None),
    ],
)
def test_what_was_complete_is_read(text: str, value: object) -> None:
    assert salvage(text) == value


def test_every_beginning_gives_a_value_or_none() -> None:
    text = json.dumps(WHOLE)
    assert salvage(text) == WHOLE
    for end in range(len(text)):
        found = salvage(text[:end])
        assert found is None or isinstance(found, dict)


def test_nesting_costs_no_more_than_its_length() -> None:
    # Brackets that close every one of these places, written out for each, would be ten thousand million characters.
    assert salvage("[" * 100_000 + "]" * 100_000 + "[") is None
