"""How sure an answer is: the points that were fitted, what lies between them, and how they are fitted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from preflight.investigate.calibration import between, calibrated, table

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "investigate"))

import fit_calibration


def test_the_points_are_probabilities_that_do_not_fall() -> None:
    assert {"signature", "exception", "healthy"} <= set(table())
    for points in table().values():
        assert list(points) == sorted(points)
        assert [after for _, after in points] == sorted(after for _, after in points)
        assert all(0.0 <= value <= 1.0 for point in points for value in point)
    assert calibrated("nothing", 0.0) == 0.0


def test_between_points() -> None:
    points = ((0.4, 0.5), (0.8, 0.9))
    assert [between(points, at) for at in (0.1, 0.4, 0.6, 0.8, 1.0)] == pytest.approx([0.5, 0.5, 0.7, 0.9, 0.9])
    assert between((), 0.3) == 0.3


def test_pools_that_fall_become_one() -> None:
    told = [(0.2, True), (0.4, False), (0.9, True), (0.9, True)]
    # 0.2 and 0.4 make one pool of which half were right; with caution (1 + 3.2) / 6 and (2 + 3.2) / 6.
    assert fit_calibration.pooled(told) == [(0.3, 0.7), (0.9, 0.867)]


def test_what_is_recorded_is_of_the_moment_at_which_a_log_was_judged() -> None:
    answer = {"name": "a", "label": "oom", "answer": "oom", "ground": "signature", "probability": 0.91234}
    without = {**answer, "name": "b", "ground": None, "probability": None}
    assert fit_calibration.rows_of([answer, without]) == [
        {"name": "a", "ground": "signature", "probability": 0.9123, "right": True}
    ]
