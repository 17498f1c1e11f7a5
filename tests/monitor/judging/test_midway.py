"""After iterations that were not recorded: who is asked goes on with nothing remembered, and says nothing wrong."""

from __future__ import annotations

from typing import Any

import pytest

from preflight.monitor.collect.columns import GAP
from preflight.monitor.judging.engine import Engine
from preflight.monitor.judging.examples import Examples
from preflight.monitor.library_of import general
from preflight.monitor.mini import Mini
from preflight.monitor.relation import UNSEEN, Relation, relations
from preflight.monitor.window import Window

MIDWAY = sorted(name for name, kind in relations().items() if kind.midway)
CUTS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (1, 5), (2, 3), (2, 5), (3, 4), (3, 8), (5, 6), (6, 12), (9, 14))
"""Windows that are left out, from which to which."""


def cut(windows: list[Window], first: int, last: int) -> list[Window]:
    """The windows without some of them; the one after them says that some are missing."""
    after = windows[last]
    after.notes.setdefault(GAP, []).append({"i": after.iteration})
    return [*windows[:first], *windows[last:]]


def broken(kind: type[Relation], windows: list[Window]) -> list[Any]:
    examples = Examples([kind])
    judged = [one for window in windows for one in examples.see(window)] + examples.finish()
    assert not examples.failures
    return [one for _, found, _ in judged for one in found if one.value is UNSEEN and not one.holds]


def test_those_that_look_at_a_step_by_itself_are_asked() -> None:
    assert {"gradients-cleared", "loss-finite", "gradients-finite", "training-mode", "clipping-in-order"} <= {*MIDWAY}
    assert not any(kind.across or kind.predicted for kind in relations().values() if kind.midway)


@pytest.mark.parametrize("name", MIDWAY)
def test_where_windows_are_missing_nothing_is_made_up(name: str) -> None:
    kind = relations()[name]
    for first, last in CUTS:
        for windows in kind.holding():
            if last < len(windows):
                assert not broken(kind, cut(windows, first, last)), (first, last)


@pytest.mark.parametrize("name", MIDWAY)
def test_what_is_broken_after_a_gap_is_seen(name: str) -> None:
    """Of a trace that is all after a gap, as of any other."""
    kind = relations()[name]
    for windows in kind.broken():
        assert broken(kind, cut(windows, 0, 0))


def steps(mini: Mini, count: int) -> list[Window]:
    """Iterations of which each makes a step."""
    calls = "zero_grad optimizer0:SGD", "forward model", "backward"
    return [mini.window(*calls, ("gradients", {"model.weight": 0.5}), "step optimizer0:SGD") for _ in range(count)]


def test_others_are_asked_no_more() -> None:
    """``step-updates`` knows how large gradients were in the first steps: it cannot, of a run that it sees from its middle."""
    kind = relations()["step-updates"]
    assert not kind.midway
    assert broken(kind, next(iter(kind.broken())))
    assert not broken(kind, cut(next(iter(kind.broken())), 0, 0))


@pytest.mark.parametrize("name", ["gradients-used-once", "gradients-cleared"])
def test_what_was_judged_before_a_gap_counts_once(name: str) -> None:
    kind = relations()[name]
    windows = next(iter(kind.holding()))
    counts = []
    for after in ([], cut(next(iter(kind.holding())), 0, 0)):
        engine = Engine([general(name)])
        for window in [*windows, *after]:
            engine.see(window)
        counts.append(sum(engine.judged.values()))
        windows = next(iter(kind.holding()))
    assert counts[0] > 0
    assert counts[1] == 2 * counts[0]


def test_the_run_forgets_what_goes_from_window_to_window() -> None:
    mini = Mini({"model.weight": {}})
    windows = steps(mini, 6)
    engine = Engine([general("gradients-cleared")])
    for window in cut(windows, 2, 4):
        engine.see(window)
    assert [one.done for one in windows[4].steps or ()] == [0]
    assert [one.done for one in windows[5].steps or ()] == [1]
    assert mini.run.resumed
