"""Relations that learn: what they learn of their holding traces holds there, and is broken in the others."""

from __future__ import annotations

import pytest

from preflight.monitor.judging.engine import Engine
from preflight.monitor.judging.examples import Examples
from preflight.monitor.learn.evidence import NEVER, Evidence
from preflight.monitor.learn.statements import statements
from preflight.monitor.mini import Mini
from preflight.monitor.relation import Relation, relations
from preflight.monitor.window import Window
from preflight.vocabulary.invariant import Invariant

LEARNING = [kind for kind in relations().values() if kind.learns]


def learnt_of(kind: type[Relation], windows: list[Window]) -> list[Invariant]:
    evidence, examples = Evidence(kind.name), Examples([kind])
    for window in windows:
        for _, found, where in examples.see(window):
            for example in found:
                evidence.see(example, where.iteration)
    return statements(kind, evidence)


@pytest.mark.parametrize("kind", LEARNING, ids=lambda kind: kind.name)
def test_what_is_learnt_holds_and_is_broken(kind: type[Relation]) -> None:
    learnt = [one for windows in kind.holding() for one in learnt_of(kind, windows)]
    assert learnt
    assert all(one.text.endswith(".") and "None" not in one.text for one in learnt)
    for expected, cases in ((False, kind.holding()), (True, kind.broken())):
        for windows in cases:
            engine = Engine(learnt)
            for window in windows:
                engine.see(window)
            engine.finish()
            assert bool(engine.violations()) is expected


@pytest.mark.parametrize("kind", LEARNING, ids=lambda kind: kind.name)
def test_what_is_asked_of_a_context_is_kept_of_it(kind: type[Relation]) -> None:
    assert not NEVER.intersection(kind.asked)


@pytest.mark.parametrize(("spread", "count"), [(0.02, 1), (0.45, 0)])
def test_a_loss_that_swings_as_far_as_zero_is_not_said_to_stay_above_it(spread: float, count: int) -> None:
    mini = Mini({"model.weight": {}})
    losses = [0.5 + spread * (-1) ** number for number in range(40)]
    told = ("backward", {"args": {"tail": [["NllLoss", [], None, []]]}})
    windows = [mini.window(told, ("loss", loss), "step optimizer0:SGD") for loss in losses]
    assert len(learnt_of(relations()["number-sign"], windows)) == count
