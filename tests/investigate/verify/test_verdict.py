"""The verdict on a fix: how often it is wrong, by simulation, and what it asks for where it cannot tell."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from preflight.errors import UsageError
from preflight.investigate.verify.directions import Wanted
from preflight.investigate.verify.problem import Asked
from preflight.investigate.verify.trial import Trial
from preflight.investigate.verify.verdict import verify
from preflight.vocabulary.verification import Verification

pytestmark = pytest.mark.slow


def runs(fails: list[bool], **more: Any) -> list[Trial]:
    return [Trial(name=str(i), outcome="fail" if bad else "pass", **more) for i, bad in enumerate(fails)]


def measured(values: list[list[float]], name: str = "seconds") -> list[Trial]:
    return [Trial(name=str(i), outcome="pass", series={name: one}) for i, one in enumerate(values)]


def share(status: str, make: Callable[[], Verification], repeats: int) -> float:
    return Counter(make().status for _ in range(repeats))[status] / repeats


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("after", [3, 10, 30, 60])
def test_a_bug_that_is_still_there_is_called_fixed_in_5_percent_at_most(rate: float, after: int) -> None:
    draw = random.Random(after)

    def stated() -> Verification:
        return verify([], runs([draw.random() < rate for _ in range(after)]), asked=Asked(rate=rate))

    def seen() -> Verification:
        before = [False]
        while not any(before):  # somebody verifies a fix because something failed
            before = [draw.random() < rate for _ in range(10)]
        return verify(runs(before), runs([draw.random() < rate for _ in range(after)]))

    assert share("FIXED", stated, 400) <= 0.05 + 0.02
    assert share("FIXED", seen, 200) <= 0.05 + 0.03


def test_a_rate_that_is_stated_without_a_unit_is_of_runs_though_the_steps_of_all_are_told() -> None:
    before, after = runs([True], steps=30), runs([False] * 3, steps=40)
    found = verify(before, after, asked=Asked(rate=0.3))
    assert found.status == "INCONCLUSIVE"
    assert found.needed == ("6 more runs after the change without any failure",)
    assert verify(before, after, asked=Asked(rate=0.3, unit="steps")).status == "FIXED"


def test_three_clean_trials_are_never_enough() -> None:
    found = verify(runs([True]), runs([False] * 3))
    assert found.status == "INCONCLUSIVE"
    assert "state the rate" in found.text
    found = verify([], runs([False] * 3), asked=Asked(rate=0.05))
    assert found.needed == ("56 more runs after the change without any failure",)


@pytest.mark.parametrize("rate", [0.001, 0.01])
def test_steps_without_a_failure_are_counted_against_those_before_it(rate: float) -> None:
    draw = numpy.random.default_rng(7)

    def make() -> Verification:
        came = float(draw.geometric(rate))
        until = float(draw.geometric(rate))
        after = runs([until <= 2000], steps=min(until, 2000.0))
        return verify(runs([True], steps=came), after)

    assert share("FIXED", make, 300) <= 0.05
    found = verify(runs([True], steps=100.0), runs([False], steps=1000.0))
    assert found.status == "INCONCLUSIVE"
    assert found.needed == ("900 more steps after the change without any failure",)
    assert verify(runs([True], steps=100.0), runs([False], steps=1900.0)).status == "FIXED"


def test_the_figures_of_the_textbook() -> None:
    """Three clean trials are called FIXED there; a mean 5 % above the baseline is called a regression."""
    missed = {rate: (1 - rate) ** 3 for rate in (0.3, 0.1, 0.05)}
    assert {rate: round(100 * share) for rate, share in missed.items()} == {0.3: 34, 0.1: 73, 0.05: 86}
    draw = numpy.random.default_rng(6)
    means = draw.normal(100, 10, (20_000, 3)).mean(1)
    assert (means > 105).mean() == pytest.approx(0.193, abs=0.01)
    assert (means * 1.05 > 105).mean() == pytest.approx(0.5, abs=0.015)


def test_what_is_fixed_is_called_fixed() -> None:
    found = verify(runs([True] * 30 + [False] * 70), runs([False] * 60))
    assert found.status == "FIXED"
    assert found.problem is not None
    assert found.problem.rate_after == pytest.approx(0.0487, abs=1e-3)
    assert found.problem.p is not None
    assert found.problem.p < 1e-5


def test_a_run_that_never_came_to_where_it_failed_does_not_count() -> None:
    before = runs([True] * 3, steps=500.0)
    found = verify(before, runs([False] * 8, steps=100.0), asked=Asked(unit="runs"))
    assert found.status == "INCONCLUSIVE"
    assert found.problem is not None
    assert (found.problem.after.runs, found.problem.after.left_out) == (0, 8)
    assert verify(before, runs([False] * 8, steps=600.0), asked=Asked(unit="runs")).status == "FIXED"


def test_the_problem_seen_again_is_not_fixed_and_another_one_is_told_apart() -> None:
    before = runs([True] * 5, what=("oom.cuda-allocation", "oom"))
    assert verify(before, runs([True, *[False] * 20], what=("oom.cuda-allocation", "oom"))).status == "NOT_FIXED"
    found = verify(before, runs([True, *[False] * 20], what=("ends.nan-loss", "numerical")))
    assert found.status == "INCONCLUSIVE"
    assert "failed in another way" in found.text
    found = verify([*before, *runs([False] * 20)], runs([True] * 8 + [False] * 12, what=("ends.nan-loss", "numerical")))
    assert found.status == "REGRESSION"


def test_failures_of_another_kind_and_metrics_together_are_a_regression_by_chance_in_5_percent_at_most() -> None:
    draw = numpy.random.default_rng(3)

    def one(fails: float, number: int) -> Trial:
        place = draw.random()
        what = ("a.bug", "usercode") if place < fails else ("b.other", "network") if place > 0.88 else ()
        series = {name: [float(draw.normal(100, 5))] for name in ("seconds", "tokens_per_second")}
        return Trial(name=str(number), outcome="fail" if what else "pass", what=what, series=series)

    def make() -> Verification:
        before, after = ([one(fails, number) for number in range(25)] for fails in (0.4, 0.0))
        return verify(before, after, wanted=Wanted(margin=0.0))

    assert share("REGRESSION", make, 400) <= 0.05


def test_a_sequential_test_stops_as_soon_as_it_can() -> None:
    asked = Asked(rate=0.3, tolerated=0.01)
    assert verify([], runs([False] * 8), asked=asked).status == "INCONCLUSIVE"
    assert verify([], runs([False] * 9), asked=asked).status == "FIXED"
    still = verify([], runs([True, True]), asked=asked)
    assert (still.status, still.text) == (
        "NOT_FIXED",
        "any failure is still there: 2 failures in 2 runs after the change",
    )


@pytest.mark.parametrize("count", [3, 5, 10])
def test_equal_programs_are_called_a_regression_in_5_percent_at_most(count: int) -> None:
    draw = numpy.random.default_rng(count)
    names = ("seconds", "throughput", "latency")

    def make() -> Verification:
        sides = [
            [
                Trial(name=str(i), outcome="pass", series={name: [float(draw.normal(100, 10))] for name in names})
                for i in range(count)
            ]
            for _ in range(2)
        ]
        return verify(*sides)

    assert share("REGRESSION", make, 150) <= 0.05 + 0.02


def noise(count: int, memory: float, draw: Any) -> Any:
    found = numpy.empty(count)
    found[0] = draw.standard_normal()
    fresh = draw.standard_normal(count) * numpy.sqrt(1 - memory**2)
    for i in range(1, count):
        found[i] = memory * found[i - 1] + fresh[i]
    return found


def steps_of(slower: float, memory: float, draw: Any, count: int = 400) -> Verification:
    before = (100 + 10 * noise(count, memory, draw)).tolist()
    after = ((100 + 10 * noise(count, memory, draw)) * slower).tolist()
    return verify(measured([before]), measured([after]))


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8])
def test_equal_steps_that_remember_themselves_are_no_regression(memory: float) -> None:
    draw = numpy.random.default_rng(3)
    assert share("REGRESSION", lambda: steps_of(1.0, memory, draw), 80) <= 0.05


def test_steps_that_take_5_percent_longer_are_a_regression() -> None:
    draw = numpy.random.default_rng(4)
    assert share("REGRESSION", lambda: steps_of(1.05, 0.0, draw), 30) >= 0.9


def test_each_direction_is_taken_as_declared() -> None:
    slow, fast = measured([[1.0], [1.01], [0.99], [1.0]], "mfu"), measured([[1.2], [1.21], [1.19], [1.2]], "mfu")
    assert verify(slow, fast).metrics[0].verdict == "better"
    assert verify(fast, slow).status == "REGRESSION"
    assert verify(slow, fast, wanted=Wanted(["mfu:lower"])).status == "REGRESSION"
    assert verify(slow, fast, wanted=Wanted(["mfu:equal"])).status == "REGRESSION"
    assert verify(slow, slow, wanted=Wanted(["mfu:equal:5%"])).metrics[0].verdict == "same"


def test_a_metric_without_a_direction_is_refused_with_the_choice() -> None:
    trials = measured([[1.0]] * 3, "wobble")
    with pytest.raises(UsageError) as caught:
        verify(trials, trials, all_metrics=True)
    assert "wobble:higher" in str(caught.value.hint)
    with pytest.raises(UsageError):
        Wanted(["wobble:up"])
    with pytest.raises(UsageError):
        Wanted(["mfu:higher:much"])


def test_a_slow_program_is_fixed_when_it_is_faster() -> None:
    before, after = measured([[1.0], [1.01], [0.99], [1.0]]), measured([[0.8], [0.81], [0.79], [0.8]])
    asked, wanted = Asked(what="seconds"), Wanted(["seconds:lower"])
    assert verify(before, after, asked=asked, wanted=wanted).status == "FIXED"
    assert verify(before, before, asked=asked, wanted=wanted).status == "NOT_FIXED"
    assert verify(after, before, asked=asked, wanted=wanted).status == "NOT_FIXED"


def test_losses_are_compared_as_curves_against_the_spread_of_seeds() -> None:
    draw = numpy.random.default_rng(9)

    def curve(seed: float, end: float = 0.0) -> Trial:
        steps = numpy.arange(1, 301)
        loss = 2 + 3 * steps**-0.5 + seed + end * steps / 300 + 0.05 * draw.standard_normal(300)
        return Trial(name="x", outcome="pass", series={"loss": loss.tolist()}, places={"loss": steps.tolist()})

    seeds = [-0.01, 0.0, 0.01, 0.005]
    before = [curve(one) for one in seeds]
    # The same curve, read at more steps: the common stretch is compared, not the last values.
    assert verify(before, [curve(one) for one in seeds]).metrics[0].verdict == "same"
    assert verify(before, [curve(one, 0.5) for one in seeds]).status == "REGRESSION"
    alone = verify(before[:1], [curve(0.0, 0.5)], wanted=Wanted(["loss:lower"]))
    assert alone.status == "INCONCLUSIVE"
    assert "seeds differ" in alone.metrics[0].text


def test_nothing_failed_and_nothing_is_asked() -> None:
    found = verify(runs([False]), runs([False]))
    assert found.status == "INCONCLUSIVE"
    assert found.needed == ("a run before the change that fails, or how often it fails: --rate",)
    undecided = verify(runs([True] * 6), runs([False] * 20), wanted=Wanted(["mfu:higher"]))
    assert undecided.status == "INCONCLUSIVE"
    assert "no value before" in undecided.text


def test_runs_that_were_not_interleaved_are_told() -> None:
    before = [Trial(name="a", outcome="fail", order=float(i), series={"seconds": [1.0 + i / 100]}) for i in range(4)]
    after = [Trial(name="b", outcome="pass", order=10.0 + i, series={"seconds": [1.0 + i / 100]}) for i in range(4)]
    assert any("interleaved" in text for text in verify(before, after).assumptions)
