"""Who spoke when: counted by time where there is one, else by step."""

from __future__ import annotations

from preflight.investigate.case.case import Case
from preflight.investigate.course.activity import SPANS
from preflight.investigate.course.activity import activity_of as of_case
from preflight.vocabulary.incident import Activity, Clock
from preflight.vocabulary.log import LogFile, Reading, StepLine, Who


def activity_of(reading: Reading, *clocks: Clock) -> Activity | None:
    case = Case(reading, {})
    case.clocks = {clock.node: clock for clock in clocks}
    return of_case(case)


def _line(rank: int, step: int, time: float | None = None) -> StepLine:
    return StepLine(file=0, line=step + 1, step=step, values={}, who=Who(rank=rank, node=f"n{rank}"), time=time)


def test_a_rank_that_stops_leaves_empty_spans() -> None:
    steps = [_line(rank, step, 1000.0 + step) for rank in (0, 1) for step in range(200) if rank == 0 or step < 100]
    activity = activity_of(Reading(steps=tuple(steps)))
    assert activity is not None
    assert activity.unit == "seconds"
    assert (activity.first, activity.width) == (1000.0, 3.0)  # ceil(199 / 95)
    assert len(activity.rows[0]) == len(activity.rows[1]) == 67  # 199 // 3 + 1
    assert len(activity.rows[0]) <= SPANS
    assert sum(activity.rows[0]) == 200
    assert sum(activity.rows[1]) == 100
    assert not any(activity.rows[1][34:])


def test_clocks_are_corrected_before_they_are_compared() -> None:
    steps = [_line(0, 0, 100.0), _line(0, 1, 101.0), _line(1, 0, 3700.0), _line(1, 1, 3701.0)]
    activity = activity_of(Reading(steps=tuple(steps)), Clock(node="n1", ahead=3600.0, error=0.1, markers=9))
    assert activity is not None
    assert activity.rows == {0: (1, 1), 1: (1, 1)}


def test_without_times_steps_are_counted() -> None:
    activity = activity_of(Reading(steps=tuple(_line(rank, step) for rank in (0, 1) for step in (5, 6))))
    assert activity is not None
    assert activity.unit == "steps"
    assert activity.rows == {0: (1, 1), 1: (1, 1)}


def test_one_rank_or_one_moment_is_no_map() -> None:
    assert activity_of(Reading(steps=(_line(0, 1, 5.0), _line(0, 2, 6.0)))) is None
    assert activity_of(Reading(steps=(_line(0, 1, 5.0), _line(1, 1, 5.0)))) is None
    assert activity_of(Reading(files=(LogFile(index=0, path="a", kind="text"),))) is None
