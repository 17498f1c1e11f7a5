"""The clocks of nodes: found from what all of them saw, with an uncertainty that holds the truth."""

from __future__ import annotations

import pytest

from preflight.investigate.case.case import UNKNOWN_SKEW, Case
from preflight.investigate.case.people import People
from preflight.investigate.course.clocks import clocks_of
from preflight.vocabulary.log import Reading, StepLine

from ..readings import SIGNATURES, START, files, hit, skewed

TABLE = {one.id: one for one in SIGNATURES}
RUNS = 60


@pytest.mark.parametrize(("whole", "noise"), [(False, 0.005), (False, 0.2), (True, 0.02)])
def test_the_uncertainty_holds_the_truth(whole: bool, noise: float) -> None:
    inside = total = 0
    for seed in range(RUNS):
        reading, ahead = skewed(seed, nodes=2 + seed % 4, markers=5 + seed, whole=whole, noise=noise)
        clocks = clocks_of(reading, People(reading), TABLE)
        assert set(clocks) == set(ahead)
        for node, truth in ahead.items():
            if node != "node0":
                total += 1
                inside += abs(clocks[node].ahead - truth) <= clocks[node].error
    # 95 % are promised; of so many, fewer than 90 % would be wrong by more than chance.
    assert inside / total >= 0.9, f"{inside} of {total}"


def test_more_markers_say_it_more_surely() -> None:
    few, _ = skewed(1, nodes=2, markers=5, whole=False, noise=0.1)
    many, _ = skewed(1, nodes=2, markers=100, whole=False, noise=0.1)
    errors = [clocks_of(reading, People(reading), TABLE)["node1"].error for reading in (few, many)]
    assert errors[1] < errors[0] / 2


def test_a_node_without_markers_is_not_told_and_its_times_are_held_unsure() -> None:
    reading, _ = skewed(2, nodes=3, markers=20, whole=False, noise=0.01)
    reading = Reading(files=reading.files, steps=tuple(one for one in reading.steps if one.file < 4), world_size=6)
    people = People(reading)
    case = Case(reading, TABLE, people)
    case.clocks = clocks_of(reading, people, TABLE)
    assert set(case.clocks) == {"node0", "node1"}
    assert case.clock_error("node2") == UNKNOWN_SKEW
    assert case.clock_error("node1") < 0.1


def test_barriers_are_markers_too() -> None:
    hits = tuple(hit("progress.barrier", rank, line, line * 1.5 + (7.25 if rank >= 2 else 0.0))
                 for rank in range(4) for line in range(1, 6))  # fmt: skip
    reading = Reading(files=files(4), hits=hits)
    found = clocks_of(reading, People(reading), TABLE)["node1"]
    assert found.ahead == pytest.approx(7.25, abs=0.01)
    assert found.markers == 5


def test_steps_that_are_run_again_are_other_markers() -> None:
    lines = []
    for rank, shift in ((0, 0.0), (2, 3.0)):
        for line, (step, at) in enumerate([(1, 0), (2, 1), (3, 2), (2, 60), (3, 61), (4, 62)]):
            lines.append(
                StepLine(file=rank, line=line + 1, step=step, values={}, time=START + at + shift + 0.001 * line)
            )
    reading = Reading(files=files(4), steps=tuple(lines))
    assert clocks_of(reading, People(reading), TABLE)["node1"].ahead == pytest.approx(3.0, abs=0.01)


def test_one_node_has_nothing_to_compare() -> None:
    reading, _ = skewed(3, nodes=1, markers=20, whole=False, noise=0.01)
    assert clocks_of(reading, People(reading), TABLE) == {}


def test_many_nodes_are_joined_without_comparing_each_with_each() -> None:
    reading, ahead = skewed(4, nodes=40, markers=12, whole=False, noise=0.01)
    clocks = clocks_of(reading, People(reading), TABLE)
    assert max(abs(clocks[node].ahead - truth) for node, truth in ahead.items()) < 0.05
