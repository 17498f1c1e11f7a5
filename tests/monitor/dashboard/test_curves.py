"""A curve of any length stays small, even over the whole, whole at its end, and is told in pieces."""

from __future__ import annotations

import math
import random
import statistics
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.monitor.dashboard.curves import MOST_POINTS, TAIL, Curve
from preflight.monitor.dashboard.spans import MOST_COLUMNS, Cell, Spans
from preflight.monitor.mini import Mini
from preflight.monitor.series import MOST_POINTS as LONGEST
from preflight.monitor.series import Curve as Short
from preflight.monitor.series import Watching
from preflight.monitor.window import Run, Window


def filled(count: int) -> Curve:
    curve = Curve()
    for step in range(count):
        curve.add(step, float(step))
    return curve


def points(curve: Curve) -> list[tuple[int, float | None]]:
    piece = curve.since(-1, 0)
    return [] if piece is None else list(zip(piece.steps, piece.values, strict=True))


@pytest.mark.parametrize("count", [1, 10, MOST_POINTS, MOST_POINTS + 1, 5_000, 123_457])
def test_it_has_the_first_and_all_of_the_last_and_is_even_between(count: int) -> None:
    steps = [step for step, _ in points(filled(count))]
    assert len(steps) <= MOST_POINTS
    assert steps[0] == 0
    assert steps[-min(count, TAIL) :] == list(range(count - min(count, TAIL), count))
    gaps = [after - before for before, after in pairwise(steps)]
    until = next((at for at, gap in enumerate(gaps) if gap == 1 and set(gaps[at:]) == {1}), len(gaps))
    # Before the tail, spans are alike: of values that only rise, the first and the last of each are kept.
    assert len(set(gaps[: max(until - 1, 0)])) <= 2


@given(
    st.integers(MOST_POINTS + 1, 6 * MOST_POINTS), st.sets(st.integers(0, 6 * MOST_POINTS), max_size=5),
    st.sampled_from([9.0, -9.0, None]),
)  # fmt: skip
@settings(max_examples=10, deadline=None)
def test_one_step_that_stands_out_never_vanishes(count: int, places: set[int], value: float | None) -> None:
    """Each spike is alone in its surroundings, or a larger one stands for it."""
    long, short = Curve(), Short()
    for step in range(count):
        told = value if step in places else math.sin(step)
        long.add(step, told)
        short.add(step, told)
    for steps, values in (zip(*points(long), strict=True), short.points()):
        shown = dict(zip(steps, values, strict=True))
        lone = {at for at in places if at < count and not any(0 < abs(at - other) <= count // 50 for other in places)}
        assert {at for at in lone if shown.get(at, 0.0) != value} == set()
        assert set(shown.values()) <= {value} | {math.sin(step) for step in shown}
    assert len(short.points()[0]) <= LONGEST
    assert short.points()[0][-1] == count - 1


def test_the_middle_of_what_is_kept_is_the_middle_of_all() -> None:
    draw = random.Random(7)
    taken = [draw.lognormvariate(0, 0.4) for _ in range(50_000)]
    short = Short()
    for step, value in enumerate(taken):
        short.add(step, value)
    kept = [value for value in short.points()[1] if value is not None]
    assert statistics.median(kept) == pytest.approx(statistics.median(taken), rel=0.1)


def test_what_is_told_in_pieces_is_what_is_there() -> None:
    curve, told, generation = Curve(), [], -1
    for step in range(3 * MOST_POINTS):
        curve.add(step, float(step))
        if step % 7 == 0:
            piece = curve.since(generation, len(told))
            assert piece is not None
            generation = piece.generation
            told = told[: piece.start] + list(zip(piece.steps, piece.values, strict=True))
            assert told == points(curve)
    assert curve.since(curve.generation, len(curve)) is None


def test_a_value_that_is_not_finite_is_a_gap() -> None:
    curve = Curve()
    for value in (1.0, math.nan, math.inf, None, 2.0):
        curve.add(0, value)
    assert [value for _, value in points(curve)] == [1.0, None, None, None, 2.0]


def test_a_copy_stays_as_it_is() -> None:
    curve = filled(10)
    copy = curve.copy()
    curve.add(10, 10.0)
    assert len(points(copy)) == 10
    assert copy.last == 9.0


def test_spans_grow_with_the_run_and_keep_every_step() -> None:
    spans = Spans()
    for step in range(5 * MOST_COLUMNS):
        for rank in (0, 1):
            spans.add(rank, step, 1.0 + rank)
    assert spans.width == 8
    assert {rank for rank, _ in spans.cells} == {0, 1}
    assert sum(cell.steps for cell in spans.cells.values()) == 10 * MOST_COLUMNS
    assert spans.cells[1, 3] == Cell(8, 16.0, 2.0)
    assert spans.means() == {0: 1.0, 1: 2.0}


def test_steps_of_a_pause_are_counted_where_nothing_else_is_told_of_them() -> None:
    watching = Watching()
    window = Window(Run(0, 1), 30)
    window.step = 20
    window.notes["paused"] = [{"q": 9, "i": 30, "s": 31, "since": 20, "since_s": 20, "reason": "budget"}]
    watching.see(window)
    assert watching.steps == 31


def test_steps_are_those_of_the_first_optimizer_that_steps() -> None:
    mini = Mini({"one.weight": {}, "two.weight": {"optimizer": 1}})
    watching = Watching()
    for _ in range(3):
        watching.see(mini.window("backward", "step optimizer0:Adam", "backward", "step optimizer1:Adam"))
    assert watching.steps == 3
    watching.see(mini.window("backward", "step optimizer0:Adam"))
    assert watching.steps == 4
