"""Every relation holds in its holding traces and is broken in the others, and its page says what a reader needs."""

from __future__ import annotations

import inspect

import pytest

from preflight.monitor.judging.engine import Engine
from preflight.monitor.relation import Relation, relations
from preflight.monitor.window import Window
from preflight.vocabulary.invariant import Invariant, Violation

CASES = list(relations().values())


def violations_in(kind: type[Relation], windows: list[Window]) -> tuple[list[Violation], int]:
    invariant = Invariant(id=kind.name, relation=kind.name, severity=kind.severity)
    engine = Engine([invariant])
    for window in windows:
        engine.see(window)
    engine.finish()
    return engine.violations(), engine.judged.get(kind.name, 0)


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.name)
def test_the_page_says_what_why_and_what_to_do(kind: type[Relation]) -> None:
    page = inspect.getdoc(kind) or ""
    assert len(page.split("\n\n")) >= 2, "a first line and at least one paragraph"
    assert kind.cause
    assert kind.advice
    assert kind.needs


@pytest.mark.parametrize(
    "kind", [kind for kind in CASES if not kind.learns and not kind.predicted], ids=lambda kind: kind.name
)
def test_it_holds_in_its_holding_traces(kind: type[Relation]) -> None:
    cases = list(kind.holding())
    assert cases
    for windows in cases:
        found, judged = violations_in(kind, windows)
        assert not found
        assert judged, "the trace gives nothing to judge"


@pytest.mark.parametrize(
    "kind", [kind for kind in CASES if not kind.learns and not kind.predicted], ids=lambda kind: kind.name
)
def test_it_is_broken_in_its_broken_traces(kind: type[Relation]) -> None:
    cases = list(kind.broken())
    assert cases
    for windows in cases:
        found, _ = violations_in(kind, windows)
        assert found
