"""Windows that repeat: a relation that is not shown them says what it would have said, of them and of all that follow."""

import random

import pytest

from preflight.monitor.judging.engine import Engine
from preflight.monitor.judging.examples import Examples
from preflight.monitor.judging.forms import Forms
from preflight.monitor.library_of import shipped
from preflight.monitor.mini import Mini
from preflight.monitor.relation import Relation, relations
from preflight.monitor.window import Run, Window

REPEATING = sorted(name for name, kind in relations().items() if kind.repeats)


def fresh(run: Run) -> Run:
    """A run of which nobody has followed anything yet."""
    made = Run(run.rank, run.world)
    made.variables, made.groups = run.variables, run.groups
    return made


def moved(window: Window, run: Run, by: int, iteration: int, chance: random.Random) -> Window:
    """The window as a later one, now and then with other numbers."""
    made = Window(run, iteration)
    made.rank, made.complete, made.notes = window.rank, window.complete, window.notes
    made.calls = [
        one._replace(q=one.q + by, e=one.e + by, i=iteration, parent=one.parent + (by if one.parent >= 0 else 0))
        for one in window.calls
    ]
    made.tensors = [one._replace(q=one.q + by, i=iteration, call=one.call + by) for one in window.tensors]
    for name in ("states", "numbers", "batches", "changed"):
        setattr(made, name, [one._replace(q=one.q + by, i=iteration) for one in getattr(window, name)])
    if chance.random() < 0.5:

        def other(value: float | None) -> float | None:
            return value * (1 + 0.3 * chance.random()) if value else value

        def another(bits: list[int | None]) -> list[int | None]:
            return [value if value is None else chance.getrandbits(62) for value in bits]

        made.numbers = [one._replace(value=other(one.value)) for one in made.numbers]
        made.batches = [one._replace(bits=another(one.bits)) for one in made.batches]
        made.states = [
            one._replace(norm=[other(norm) for norm in one.norm], bits=another(one.bits) if one.bits else one.bits)
            for one in made.states
        ]
    return made


def longer(trace: list[Window], chance: random.Random) -> list[Window]:
    """A trace of the windows of another one: each again and again, in any order or with others in between now and then."""
    run = fresh(trace[0].run)
    reach = 2 + max(one.e for window in trace for one in window.calls) if any(one.calls for one in trace) else 2
    order: list[Window] = []
    base, departure = chance.choice(trace), [chance.choice(trace) for _ in range(chance.choice((1, 1, 2)))]
    leaves = chance.random() < 0.5
    while len(order) < 40:
        if leaves and chance.random() < 0.95:
            order += [base] * chance.choice((2, 3, 4)) + departure
        else:
            order += [chance.choice(trace)] * chance.choice((1, 1, 2, 4, 9))
    return [moved(window, run, place * 2 * reach, place, chance) for place, window in enumerate(order)]


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
    for seed in range(4):
        for trace in traces:
            left_out = said(kind, longer(trace, random.Random(seed)))
            with monkeypatch.context() as patched:
                patched.setattr(kind, "repeats", 0)
                assert left_out == said(kind, longer(trace, random.Random(seed)))


@pytest.mark.parametrize("part", range(4))
def test_the_library_alarms_and_counts_the_same(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what every relation breaks, with all relations of the shipped library in force."""

    def told(trace: list[Window], seed: int) -> object:
        engine = Engine(shipped())
        for window in longer(trace, random.Random(seed)):
            engine.see(window)
        engine.finish()
        assert not engine.failures
        found = [(one.relation, one.first_step, one.message, one.seen, one.group) for one in engine.violations()]
        return found, engine.judged

    traces = [trace for kind in relations().values() if not kind.across for trace in (*kind.broken(), *kind.holding())]
    for seed, trace in enumerate(traces):
        if seed % 4 != part:
            continue
        slept = told(trace, seed)
        with monkeypatch.context() as patched:
            for kind in relations().values():
                patched.setattr(kind, "repeats", 0)
            assert slept == told(trace, seed)


def shown(kind: type[Relation], windows: list[Window], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The windows that a relation is shown."""
    seen: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr(kind, "see", lambda self, window: seen.append(window.iteration) or ())
        examples = Examples([kind])
        for window in windows:
            assert not examples.see(window)
    return seen


def test_relations_are_not_shown_windows_that_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    mini = Mini({"model.weight": {}})
    rows = ("zero_grad optimizer0:SGD", "forward model", "backward", "step optimizer0:SGD")
    windows = [*(mini.window(*rows) for _ in range(9)), mini.window(*rows[1:]), mini.window(*rows)]
    kind = relations()["accumulation-even"]
    assert shown(kind, windows, monkeypatch) == [*range(kind.repeats), 9, 10]


def test_a_relation_sleeps_while_something_else_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    mini = Mini({"model.weight": {}})
    windows = [
        mini.window(*("forward other",) * (number % 3), "backward", "step optimizer0:SGD") for number in range(12)
    ]
    kind = relations()["gradients-of-one-loss"]
    assert shown(kind, windows, monkeypatch) == [*range(kind.repeats)]


def test_a_relation_sees_each_window_with_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    mini = Mini({"model.weight": {}})
    rows = ("zero_grad optimizer0:SGD", "backward", "step optimizer0:SGD")
    looked = (*rows[:1], ("left", {"model.weight": 0.0}), *rows[1:])
    kind = relations()["gradients-cleared"]
    windows = [mini.window(*looked) for _ in range(5)] + [mini.window(*rows) for _ in range(5)]
    assert shown(kind, windows, monkeypatch) == [*range(5 + kind.repeats)]


@pytest.mark.parametrize("learnt", [False, True])
def test_a_relation_that_learns_nothing_of_what_it_reads_sleeps_on(
    learnt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mini = Mini({"model.weight": {}})
    rows = ("backward", "step optimizer0:SGD")
    looked = (("before", {"model.weight": (1.0, 7)}), *rows)
    kind = relations()["load-brings-on"]
    known = iter(range(99))
    monkeypatch.setattr(kind, "kept", lambda self: next(known) if learnt else 0)
    windows = [mini.window(*(looked if number in (4, 7, 8) else rows)) for number in range(12)]
    more = {5, 6, 9, 10} if learnt else set()
    assert kind.repeats == 2
    assert shown(kind, windows, monkeypatch) == sorted({0, 1, 4, 7, 8, *more})


def test_a_relation_wakes_after_something_to_read_that_it_was_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    mini = Mini({"model.weight": {}})
    rows = ("backward", ("gradients", {"model.weight": 1.0}), "step optimizer0:SGD")
    kind = relations()["gradients-reach"]
    monkeypatch.setattr(kind, "kept", lambda self: 0)
    monkeypatch.setattr(kind, "wakes", frozenset({"zero_grad"}))
    monkeypatch.setattr(kind, "looks", frozenset({"step"}))
    cleared = ("zero_grad optimizer0:SGD", *rows)
    order = [*[cleared] * 4, ("module model.part", *rows), *[cleared] * 4]
    windows = [mini.window(*one) for one in order]
    assert kind.repeats == 2
    assert shown(kind, windows, monkeypatch) == [0, 1, 5, 6]


def test_a_rate_that_is_told_again_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    mini = Mini({"model.weight": {}})
    rates = [0.1, None, None, None, None, None, None, 0.1, None, 0.2, None]
    windows = [
        mini.window(*([("scalar", "lr", "optimizer0:SGD.0", rate)] if rate else []), "backward", "step optimizer0:SGD")
        for rate in rates
    ]
    kind = relations()["rate-above-zero"]
    assert kind.repeats == 6
    assert shown(kind, windows, monkeypatch) == [*range(6), 9, 10]


def passed(mini: Mini, passes: int = 1) -> Window:
    return mini.window("zero_grad optimizer0:SGD", *["backward"] * passes, "step optimizer0:SGD")


def test_a_relation_sleeps_through_what_comes_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fifth step is another one, of which the relation knows what it says, and of those after it."""
    mini = Mini({"model.weight": {}})
    windows = [passed(mini, 2 if number % 5 == 4 else 1) for number in range(40)]
    kind = relations()["gradients-of-one-loss"]
    assert kind.repeats == 2
    assert shown(kind, windows, monkeypatch) == [0, 1, 4, 5, 6, 9, 10, 11, 14, 15, 16]


def test_a_relation_is_shown_what_it_slept_through_when_it_goes_on_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    mini = Mini({"model.weight": {}})
    rounds = [passed(mini, 2 if number % 5 == 4 else 1) for number in range(34)]
    windows = [*rounds, passed(mini, 2), passed(mini), passed(mini, 3), passed(mini)]
    assert shown(relations()["gradients-of-one-loss"], windows, monkeypatch)[11:] == [34, 35, 36, 37]


def test_a_relation_wakes_where_the_longer_of_two_departures_goes_on_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shorter one was over by then: it has no window there to compare with."""
    mini = Mini({"model.weight": {}})
    long, short = [2, 1, 2, 1, 1], [2, 1, 1]
    passes = [1, 1, *long, 1, *[*short, 1] * 3, *[*long, 1] * 2, *long[:3], 3, 1]
    windows = [passed(mini, one) for one in passes]
    assert shown(relations()["gradients-of-one-loss"], windows, monkeypatch)[-3:] == [34, 35, 36]


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
def test_another_call_is_no_repetition(other: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    mini = Mini({"model.weight": {}})
    windows = [
        mini.window(("forward model", more), "backward", "step optimizer0:SGD")
        for more in ({"args": {"training": True}}, {"args": {"training": True}}, other)
    ]
    assert shown(relations()["statistics-estimated"], windows, monkeypatch) == [0, 2]


def test_what_only_detailed_iterations_tell_wakes_nobody_who_does_not_ask_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mini = Mini({"model.weight": {}})

    def row(number: int) -> tuple[str, dict[str, object]]:
        told = {"alike": [], "carried": False} if number % 3 == 2 else {}
        return "forward model", {"args": {"training": True, **told}}

    windows = [mini.window(row(number), "backward", "step optimizer0:SGD") for number in range(12)]
    kind = relations()["statistics-estimated"]
    assert shown(kind, windows, monkeypatch) == [*range(kind.repeats)]
    for name in ("samples-differ", "state-carried-in-order"):
        assert shown(relations()[name], windows, monkeypatch) == [2, 5, 8, 11]


def test_a_departure_is_known_although_something_else_differs_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the relation does not look at may be there or not, on the way and where it sleeps."""
    mini = Mini({"model.weight": {}})

    def window(number: int) -> Window:
        others = ["forward other"] * (number % 3)
        passes = ["backward"] * (2 if number % 5 == 4 else 1)
        return mini.window("zero_grad optimizer0:SGD", *others, *passes, "step optimizer0:SGD")

    windows = [window(number) for number in range(40)]
    kind = relations()["gradients-of-one-loss"]
    assert kind.repeats == 2
    assert shown(kind, windows, monkeypatch) == [0, 1, 4, 5, 6, 9, 10, 11, 14, 15, 16]


def test_forms_go_by_one_number_for_who_looks_at_what_they_share() -> None:
    mini = Mini({"model.weight": {}})
    forms = Forms([frozenset({"backward"}), frozenset({"forward"})])
    numbers = []
    for number in range(40):
        forms.changed(mini.window(*["forward model"] * (number % 20), "backward", "step optimizer0:SGD"))
        numbers.append(forms.form)
    backward, forward = forms.aspects.values()
    assert {backward.of(one) for one in numbers} == {numbers[0]}
    assert [forward.of(one) for one in numbers] == numbers
    assert len(set(numbers)) == 20
    assert backward.of(-1) == -1


def test_a_relation_that_wakes_late_judges_as_if_it_had_been_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown the steps with a look at the weights alone, and knows how many were made and what they left."""
    mini = Mini({f"model.{name}.weight": {} for name in "abcdefghi"})
    names = [f"model.{name}.weight" for name in "abcdefghi"]
    windows, value = [], 1.0
    for number in range(36):
        looked = number % 4 == 3
        before = dict.fromkeys(names, value)
        if number == 31:
            before[names[0]] += 0.1
        value += 0.01
        rows = [("before", before)] if looked else []
        windows.append(mini.window(*rows, "step optimizer0:SGD", ("after", dict.fromkeys(names, value))))
    kind = relations()["weights-between-steps"]
    late = said(kind, windows)
    with monkeypatch.context() as patched:
        patched.setattr(kind, "wakes", None)
        again = fresh(windows[0].run)
        for window in windows:
            window.run, window.steps, window.signs = again, None, None
        assert late == said(kind, windows)
    assert [one[0] for one in late if not one[2]] == [31]  # type: ignore[index]
