"""What a failure cost, against an example worked by hand."""

from __future__ import annotations

import msgspec
import pytest

from preflight.investigate.course.loss import mean_between
from preflight.investigate.judge import judge
from preflight.vocabulary.log import Reading

from ..readings import SIGNATURES, files, hit, steps


def test_an_example_worked_by_hand() -> None:
    """Steps 0 to 59, one a second; it fails at 60 s, starts again at 100 s, resumes from step 40 and fails at 161 s.

    Made again: 40 to 59, 20 s. Without a step: from 59 s to 100 s, less the step under way, 40 s; and at the end from
    160 s to 161 s, less the step under way, nothing. Of 161 s, 60 were lost, on 4 GPUs: 240 GPU-seconds.
    """
    hits = (
        hit("oom.allocation", 1, 100, 60.0),
        hit("elastic.restart", 0, 110, 90.0),
        hit("usercode.shape", 2, 300, 161.0),
    )
    lines = (*steps(range(4), range(60)), *steps(range(4), range(40, 101), first_line=120, at=100.0))
    loss = judge(Reading(files=files(4, lines=400), hits=hits, steps=lines, world_size=4), SIGNATURES).loss
    assert loss is not None
    assert loss.steps_lost == 20
    assert loss.gpu_hours_lost == pytest.approx(60 * 4 / 3600)
    assert loss.effective_share == pytest.approx(1 - 60 / 161)
    assert loss.mean_hours_between_failures is not None
    assert loss.mean_hours_between_failures[0] == pytest.approx(161 / 2 / 3600)
    assert "GPU-hours lost: (20 s of steps + 40 s without steps) x 4 / 3600" in loss.arithmetic[0]


def test_the_interval_is_the_exact_one() -> None:
    """Of 3 events, the exact 95 % interval of the mean count is 0.6187 to 8.7673 (tables of the Poisson distribution)."""
    found = mean_between(100.0, 3)
    assert found is not None
    assert found == pytest.approx((100 / 3, 100 / 8.7673, 100 / 0.6187), rel=1e-3)
    assert mean_between(100.0, 0) is None


def test_without_times_nothing_is_guessed() -> None:
    loss = judge(Reading(files=files(2), hits=(hit("oom.allocation", 0, 5),), world_size=2), SIGNATURES).loss
    assert loss is not None
    assert loss.gpu_hours_lost is None
    assert loss.reason


def test_a_healthy_run_has_lost_nothing() -> None:
    assert judge(Reading(files=files(2), steps=steps(range(2), range(9)), world_size=2), SIGNATURES).loss is None


def test_steps_without_times_are_not_taken_for_none() -> None:
    """A bar bears no times: how much of an hour went into steps is not known where only other lines bear them."""
    untimed = tuple(msgspec.structs.replace(one, time=None) for one in steps(range(1), range(9)))
    hits = (hit("elastic.restart", 0, 2, 0.0), hit("oom.allocation", 0, 300, 3600.0))
    loss = judge(Reading(files=files(1, lines=400), hits=hits, steps=untimed, world_size=1), SIGNATURES).loss
    assert loss is not None
    assert loss.reason == "not all steps bear times"
    assert loss.effective_share is None
