"""Windows that repeat: a relation that is not shown them says what it would have said, of them and of all that follow."""

import random

import pytest

from preflight.monitor.examples import Examples
from preflight.monitor.mini import Mini
from preflight.monitor.relation import Relation, relations
from preflight.monitor.repeats import Repeats
from preflight.monitor.window import Run, Window

REPEATING = sorted(name for name, kind in relations().items() if kind.repeats)


def fresh(run: Run) -> Run:
    """A run of which nobody has followed anything yet."""
    made = Run(run.rank, run.world)
    made.variables, made.groups = run.variables, run.groups
    return made


def moved(window: Window, run: Run, by: int, iteration: int) -> Window:
    """The window as a later one."""
    made = Window(run, iteration)
    made.complete, made.notes = window.complete, window.notes
    made.calls = [
        one._replace(q=one.q + by, e=one.e + by, i=iteration, parent=one.parent + (by if one.parent >= 0 else 0))
        for one in window.calls
    ]
    for name in ("states", "numbers", "batches", "changed"):
        setattr(made, name, [one._replace(q=one.q + by, i=iteration) for one in getattr(window, name)])
    made.tensors = [one._replace(q=one.q + by, i=iteration, call=one.call + by) for one in window.tensors]
    return made


def longer(trace: list[Window], chance: random.Random) -> list[Window]:
    """A trace of the windows of another one: each again and again, in any order."""
    run = fresh(trace[0].run)
    reach = 2 + max(one.e for window in trace for one in window.calls) if any(one.calls for one in trace) else 2
    order: list[Window] = []
    while len(order) < 40:
        order += [chance.choice(trace)] * chance.choice((1, 1, 2, 4, 9))
    return [moved(window, run, place * 2 * reach, place) for place, window in enumerate(order)]


def said(kind: type[Relation], windows: list[Window]) -> list[object]:
    """What a relation says of windows; of what holds, the call is that of a window before."""
    found: list[object] = []
    examples = Examples([kind])
    for window in windows:
        for _, given, _ in examples.see(window):
            found += [(window.iteration, *(one[:3] if one.holds else one[:6]), one.detail) for one in given]
    assert not examples.failures
    return found


@pytest.mark.parametrize("name", REPEATING)
def test_the_same_is_said_when_windows_that_repeat_are_left_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of what comes after them, and of what is wrong again and again."""
    kind = relations()[name]
    traces = [*kind.holding(), *kind.broken()]
    for seed in range(6):
        for trace in traces:
            left_out = said(kind, longer(trace, random.Random(seed)))
            with monkeypatch.context() as patched:
                patched.setattr(kind, "repeats", 0)
                assert left_out == said(kind, longer(trace, random.Random(seed)))


def test_relations_are_not_shown_windows_that_repeat() -> None:
    mini = Mini({"model.weight": {}})
    rows = ("zero_grad optimizer0:SGD", "forward model", "backward", "step optimizer0:SGD")
    relation, repeats, seen = relations()["accumulation-even"](), Repeats(), []
    relation.see = lambda window: seen.append(window.iteration) or ()  # type: ignore[method-assign, func-returns-value]
    for window in [*(mini.window(*rows) for _ in range(9)), mini.window(*rows[1:]), mini.window(*rows)]:
        repeats.look(window)
        assert not repeats.see(0, relation, window)
    assert seen == [*range(relation.repeats), 9, 10]


@pytest.mark.parametrize(
    "other",
    [
        {"args": {"training": False}},
        {"context": "nograd"},
        {"place": "train.py:10"},
        {"result": {"more": 1}},
        {"inside": ("forward part",)},
    ],
)
def test_another_call_is_no_repetition(other: dict[str, object]) -> None:
    mini = Mini({"model.weight": {}})
    relation, repeats, seen = relations()["casts-end-before-step"](), Repeats(), []
    relation.see = lambda window: seen.append(window.iteration) or ()  # type: ignore[method-assign, func-returns-value]
    for more in ({"args": {"training": True}}, {"args": {"training": True}}, other):
        window = mini.window(("forward model", more), "backward", "step optimizer0:SGD")
        repeats.look(window)
        repeats.see(0, relation, window)
    assert seen[-1] == 2
    assert 1 not in seen
