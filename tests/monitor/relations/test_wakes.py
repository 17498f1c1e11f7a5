"""A relation that is not shown the windows that hold nothing for it says the same as one that sees them all."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from preflight.monitor.judging.signs import signs_of
from preflight.monitor.relation import UNSEEN, Example, Relation, relations
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Window

CASES = [kind for kind in relations().values() if kind.wakes is not None and not kind.across]


@cache
def traces() -> list[list[Window]]:
    """The small traces of all relations."""
    kinds = relations().values()
    return [windows for kind in kinds for windows in (*kind.holding(), *kind.broken())]


def told(example: Example) -> tuple[Any, ...]:
    value = None if example.value is UNSEEN else example.value
    return example.subject, example.holds, dict(example.context), value, example.variables, example.seen, example.detail


def signs(window: Window) -> frozenset[str]:
    steps_of(window)
    return signs_of(window)


def examples(kind: type[Relation], windows: list[Window], every: bool) -> list[tuple[Any, ...]]:
    instance, found = kind(), []
    for window in windows:
        steps_of(window)
        for look in kind.follows:
            look(window)
        if every or (kind.wakes is not None and not kind.wakes.isdisjoint(signs(window))):
            found += [told(example) for example in instance.see(window)]
    return found


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.name)
def test_windows_that_hold_nothing_for_it_change_nothing(kind: type[Relation]) -> None:
    skipped = 0
    for windows in traces():
        assert kind.wakes is not None
        skipped += sum(kind.wakes.isdisjoint(signs(window)) for window in windows)
        assert examples(kind, windows, every=False) == examples(kind, windows, every=True)
    assert skipped, "every window wakes it"


def test_the_signs_of_a_window_say_what_is_in_it() -> None:
    from preflight.monitor.mini import Mini

    mini = Mini({"model.weight": {}})
    window = mini.window(
        ("forward model", {"inside": [("batch", {"loader": "forward:model"}), ("tensor", {"object": "model"})]}),
        ("batch", {"loader": "loader0"}),
        ("loss", 0.5),
        "backward",
        ("gradients", {"model.weight": 0.5}),
        ("before", {"model.weight": (1.0, 11)}),
        "step optimizer0:SGD",
    )
    assert signs(window) == {
        *("forward", "backward", "step", "batch", "input", "tensor", "scalar", "scalar loss"),
        *("gradient at before_step", "gradients of a step"),
        *("parameter at before_step", "exact parameter at before_step", "parameters before a step"),
    }
