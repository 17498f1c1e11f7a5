"""What losses show: how often it is wrong on healthy noise, how often planted faults are found."""

from __future__ import annotations

import numpy
import pytest

from preflight.investigate.series import find_in_series
from preflight.vocabulary.log import StepLine

from .made import Random, curve, lines, noise, share

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
def test_a_loss_that_rises_is_a_divergence(memory: float) -> None:
    def make(random: Random) -> list[StepLine]:
        loss = curve(600) + 0.05 * noise(600, memory, random)
        loss[450:] += numpy.linspace(0, 1.5, 150)
        return lines(loss=loss)

    assert share(make, "divergence", 30, 5) >= 0.9


def test_a_loss_that_explodes_is_told_in_a_short_log() -> None:
    falls = [1.18, 1.04, 0.99, 0.96, 0.92, 0.88, 0.85, 0.81, 0.79, 0.76, 0.74]
    (found,) = find_in_series(lines(loss=[*falls, 13.4, 26.6, 26.6, 26.6]))
    assert found.kind == "divergence"
    assert found.first_step == 11
    (wild,) = find_in_series(lines(loss=[0.43, 0.48, 0.26, 0.27, 0.23, 3.6, 8.5, 5.3, 322, 21.9, 131, 4977, 156]))
    assert (wild.kind, wild.first_step) == ("divergence", 5)
    # Once, and back again; or no higher than in the beginning.
    assert not [one for one in find_in_series(lines(loss=[*falls, 13.4, 0.74, 0.73, 0.73])) if one.kind == "divergence"]
    assert find_in_series(lines(loss=[13.4, *falls, 13.4, 13.4, 13.4])) == ()


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
def test_a_jump_of_the_loss_is_a_spike(memory: float) -> None:
    def make(random: Random) -> list[StepLine]:
        loss = curve(600) + 0.05 * noise(600, memory, random)
        loss[300:306] += 2
        return lines(loss=loss)

    assert share(make, "spike", 30, 6) >= 0.9


@pytest.mark.parametrize(("level", "spread"), [(1e-6, 1e-7), (0.0, 0.01)])
def test_a_jump_from_about_nought_is_told_without_a_ratio(level: float, spread: float) -> None:
    loss = level + spread * noise(400, 0.0, numpy.random.default_rng(3))
    loss[200] = 3.0
    (found,) = [one for one in find_in_series(lines(loss=loss)) if one.kind == "spike"]
    assert found.text.endswith(" to 3")


@pytest.mark.parametrize(("level", "lost"), [(0.0, False), (2.0, True)])
def test_a_rise_of_a_loss_about_nought_is_held_against_how_far_it_swung(level: float, lost: bool) -> None:
    """The loss of a policy has no level: a rise that is many times its median is within its swing."""
    loss = level + (0.05 if level else 1.0) * noise(4000, 0.0, numpy.random.default_rng(5))
    loss[2000:] += 0.7 if level else 0.15
    (found,) = [one for one in find_in_series(lines(loss=loss)) if one.kind == "divergence"]
    assert found.values["lost"] is lost


@pytest.mark.parametrize(
    ("beside", "lost"), [("lr", True), ("return", False), ("value_loss", False), ("q loss", False)]
)
def test_what_an_agent_loses_may_rise_with_its_rewards(beside: str, lost: bool) -> None:
    loss = 100 + 5 * noise(2000, 0.0, numpy.random.default_rng(7))
    loss[1000:] += 300
    told = lines(loss=loss, **{beside: numpy.linspace(0, 1, 2000)})
    (found,) = [one for one in find_in_series(told) if one.kind == "divergence" and one.series == "loss"]
    assert found.values["lost"] is lost


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
def test_a_loss_that_stops_to_fall_is_a_plateau(memory: float) -> None:
    def make(random: Random) -> list[StepLine]:
        reached = numpy.minimum(numpy.arange(1, 2001), 800)
        return lines(loss=2 + 6 * reached**-0.5 + 0.02 * noise(2000, memory, random))

    assert share(make, "plateau", 20, 7) >= 0.9
    assert share(lambda random: lines(loss=curve(2000) + 0.02 * noise(2000, memory, random)), "plateau", 15, 8) == 0


@pytest.mark.parametrize("count", [150, 600])
def test_a_loss_that_falls_with_the_inverse_of_the_step_is_the_slowest_that_is_healthy(count: int) -> None:
    falls = 2 + 50 / (numpy.arange(1, count + 1) + 20)
    assert share(lambda random: lines(loss=falls + 0.02 * noise(count, 0.9, random)), "plateau", 40, 9) <= 1 / 40


def test_a_loss_that_never_moves_says_so() -> None:
    (found,) = find_in_series(lines(loss=[2.3026] * 50))
    assert found.kind == "plateau"
    assert "nothing is learnt" in found.text


@pytest.mark.parametrize(("level", "lost"), [(0.03, False), (2.0, True)])
def test_a_rise_by_next_to_nothing_of_what_had_been_won_is_no_failure(level: float, lost: bool) -> None:
    """From 10.8 down to 0.03, a loss that doubles has lost a 350th; one that doubles from 2 has lost much of what it learnt."""
    steps = numpy.arange(4000)
    loss = 10.8 * numpy.exp(-steps / 60) + level * (1 + 0.05 * noise(4000, 0.0, numpy.random.default_rng(9)))
    loss[2500:] += level
    (found,) = [one for one in find_in_series(lines(loss=loss)) if one.kind == "divergence"]
    assert found.values["lost"] is lost


@pytest.mark.parametrize(("falls", "lost"), [(True, False), (False, True)])
def test_another_stage_that_starts_high_and_is_learnt_is_no_failure(falls: bool, lost: bool) -> None:
    """A stage whose parameters are new begins as high as the run did, and comes down; what ran away stays up."""
    random = numpy.random.default_rng(11)
    first = 6 * numpy.exp(-numpy.arange(1000) / 40) + 0.002 + 0.0005 * noise(1000, 0.0, random)
    second = 6 * numpy.exp(-numpy.arange(40) / 25) if falls else numpy.full(40, 5.0)
    loss = [*first, *(second * (1 + 0.1 * noise(40, 0.0, random)))]
    (found,) = [one for one in find_in_series(lines(loss=loss)) if one.kind == "divergence"]
    assert found.values["lost"] is lost
    assert ("is coming down again" in found.text) is falls


def test_where_the_last_start_ends_the_loss_of_an_older_one_is_no_rise() -> None:
    falls = [0.03 / (1 + step / 40) + 0.0001 * (step % 7) for step in range(900)]
    older = [StepLine(file=0, line=at, step=at, values={"loss": loss}) for at, loss in enumerate(falls)]
    newer = [
        StepLine(file=0, line=1000 + at, step=at, values={"loss": loss / 20}) for at, loss in enumerate(falls[:400])
    ]
    assert not [one for one in find_in_series([*older, *newer]) if one.kind == "divergence"]
