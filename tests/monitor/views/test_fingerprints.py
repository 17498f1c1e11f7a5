"""How fingerprints go on from look to look."""

from preflight.monitor.mini import Mini
from preflight.monitor.views.fingerprints import Fingerprints, looks_of
from preflight.monitor.window import State


def state(bits: dict[int, int | None]) -> State:
    return State(1, 0, 0, 0, "before_step", "parameter", "exact", [*bits], [1.0] * len(bits), [*bits.values()], None)


def test_each_variable_is_fresh_moved_or_rested() -> None:
    known = Fingerprints()
    first = known.take(state({1: 5, 2: 6}))
    assert (first.fresh, first.moved, first.rested) == ([1, 2], [], [])
    second = known.take(state({1: 5, 2: 7, 3: 8}))
    assert (second.fresh, second.moved, second.rested) == ([3], [2], [1])
    third = known.take(state({1: 9, 2: 9, 3: 9}))
    assert (third.fresh, third.moved, third.rested) == ([], [1, 2, 3], [])


def test_of_what_no_fingerprint_was_taken_nothing_is_known() -> None:
    known = Fingerprints()
    assert known.take(state({1: None, 2: 6})).ids == [2]
    assert (1 in known, 2 in known) == (False, True)
    assert known.take(state({1: 4, 2: None})).fresh == [1]
    assert known.take(state({2: 6})).rested == [2]


def test_the_looks_of_a_window_are_those_before_steps_and_stay_with_it() -> None:
    mini = Mini({"model.weight": {}})
    windows = [
        mini.window(
            ("before", {"model.weight": (1.0, bits)}), "step optimizer0:SGD", ("after", {"model.weight": (1.0, 0)})
        )
        for bits in (1, 2, 2)
    ]
    said = [[(one.fresh, one.moved, one.rested) for one in looks_of(window)] for window in windows]
    ident = windows[0].states[0].ids[0]
    assert said == [[([ident], [], [])], [([], [ident], [])], [([], [], [ident])]]
    assert [(one.fresh, one.moved, one.rested) for one in looks_of(windows[0])] == said[0]
