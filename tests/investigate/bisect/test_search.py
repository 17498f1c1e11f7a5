"""The search for a breaking point: exact where failures are certain, rarely wrong where they come now and then."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from preflight.investigate.bisect.outcome import Budget, Outcome
from preflight.investigate.bisect.posterior import Posterior
from preflight.investigate.bisect.search import find_breaking_point, most_tests, most_untold, passes_needed

pytestmark = pytest.mark.slow


def breaks_at(point: int) -> Callable[[int], Outcome]:
    return lambda value: Outcome(kind="fail" if value >= point else "pass")


def test_every_breaking_point_between_8_and_64_is_found() -> None:
    for point in range(9, 65):
        found = find_breaking_point(range(8, 65), breaks_at(point))
        assert (found.works, found.fails, found.found) == (point - 1, point, True)
        assert found.tests <= math.ceil(math.log2(64 - 8)) + 2


def test_every_breaking_point_between_any_two_sizes_up_to_128_is_found() -> None:
    for works in range(1, 128, 3):
        for fails in range(works + 1, 129):
            bound = math.ceil(math.log2(fails - works)) + 2
            assert most_tests(fails - works + 1) == bound
            for point in {works + 1, fails, (works + fails + 1) // 2, works + 1 + (fails - works) // 3}:
                found = find_breaking_point(range(works, fails + 1), breaks_at(point))
                assert (found.works, found.fails) == (point - 1, point)
                assert found.tests <= bound


def test_a_quantity_that_fails_when_it_falls_is_searched_downwards() -> None:
    found = find_breaking_point(range(64, 7, -1), lambda v: Outcome(kind="fail" if v <= 20 else "pass"))
    assert (found.works, found.fails) == (21, 20)


def test_the_ends_are_not_believed() -> None:
    passing = find_breaking_point(range(1, 9), lambda v: Outcome(kind="pass"))
    assert not passing.found
    assert "8 is said to fail, and passed" in (passing.reason or "")
    failing = find_breaking_point(range(1, 9), lambda v: Outcome(kind="fail"))
    assert "1 is said to work, and failed" in (failing.reason or "")
    hanging = find_breaking_point(range(1, 9), lambda v: Outcome(kind="timeout"))
    assert "could not be judged: timeout" in (hanging.reason or "")
    assert not find_breaking_point([1], lambda v: Outcome(kind="pass")).found


@pytest.mark.parametrize("kind", ["other-fail", "timeout", "infra"])
def test_what_fails_otherwise_is_stepped_around(kind: str) -> None:
    def ask(value: int) -> Outcome:
        return Outcome(kind=kind if value in (32, 36) else "fail" if value >= 40 else "pass")  # type: ignore[arg-type]

    found = find_breaking_point(range(1, 65), ask)
    assert (found.works, found.fails, found.reason) == (39, 40, None)


def test_an_answer_that_lies_among_values_that_cannot_be_judged_is_an_interval() -> None:
    def ask(value: int) -> Outcome:
        return Outcome(kind="other-fail" if 30 < value < 34 else "fail" if value >= 32 else "pass")

    found = find_breaking_point(range(1, 65), ask)
    assert (found.works, found.fails, found.untold) == (30, 34, (31, 32, 33))
    assert not found.found
    assert found.probability == 0.25


@pytest.mark.parametrize("first", range(3, 1000, 97))
def test_a_wide_range_that_cannot_be_judged_is_hemmed_in_and_not_walked_through(first: int) -> None:
    count, last = 1024, 1020

    def ask(value: int) -> Outcome:
        return Outcome(kind="fail" if value >= last else "timeout" if value >= first else "pass")

    found = find_breaking_point(range(1, count + 1), ask)
    assert not found.found
    assert found.tests <= most_tests(count) + most_untold(count)
    assert sum(outcome.kind == "timeout" for _, outcome in found.trail) <= most_untold(count)
    assert first <= found.works + 1 + len(found.untold)
    assert (found.works + 1, found.fails - 1) == (found.untold[0], found.untold[-1])
    assert "not tried" in (found.reason or "") or len(found.untold) <= most_untold(count)


def test_a_budget_ends_the_search_with_what_is_known() -> None:
    runs = 0

    def ask(value: int) -> Outcome:
        nonlocal runs
        runs += 1
        if runs > 4:
            raise Budget("spent")
        return breaks_at(50)(value)

    found = find_breaking_point(range(1, 65), ask)
    assert found.reason == "spent"
    assert (found.works, found.fails) == (48, 64)


def _share_wrong(chance: float | None, point: int, trials: int, seed: int) -> tuple[int, float]:
    rng = random.Random(seed)
    wrong = tests = 0
    for _ in range(trials):
        found = find_breaking_point(
            range(8, 65), lambda v: Outcome(kind="fail" if v >= point and rng.random() < 0.3 else "pass"), chance=chance
        )
        wrong += found.fails != point
        tests += found.tests
    return wrong, tests / trials


@pytest.mark.slow
@pytest.mark.parametrize("chance", [0.3, None])
def test_a_failure_that_comes_in_three_of_ten_runs_is_located_wrongly_in_at_most_a_twentieth(
    chance: float | None,
) -> None:
    """Over the whole range, and at its lower end, where every run above can mislead."""
    trials = 60 if chance else 30
    every = {point: _share_wrong(chance, point, trials, point)[0] for point in (9, 10, 23, 44, 64)}
    assert sum(every.values()) <= 0.05 * trials * len(every), every
    assert max(every.values()) <= 0.1 * trials, every


def test_a_flaky_failure_that_never_shows_is_said_not_to_have_shown() -> None:
    found = find_breaking_point(range(1, 9), lambda v: Outcome(kind="pass"), chance=0.3)
    assert "is said to fail, and passed" in (found.reason or "")
    assert found.tests == passes_needed(0.3, 0.02 / 3)


def test_passes_that_exclude_a_failure() -> None:
    assert passes_needed(1.0) == 1
    assert passes_needed(0.3, 0.05) == 9  # 0.7 ** 9 = 0.040, 0.7 ** 8 = 0.058
    assert passes_needed(0.05, 0.05) == 59  # the rule of three, exactly


def test_beliefs_follow_bayes() -> None:
    belief = Posterior(5, (0.5,))  # breaking points 1, 2, 3, 4
    belief.update(2, failed=False)  # halves 1 and 2
    assert belief.marginal() == pytest.approx([0, 1 / 6, 1 / 6, 1 / 3, 1 / 3])
    belief.update(3, failed=True)  # excludes 4
    assert belief.marginal() == pytest.approx([0, 1 / 4, 1 / 4, 1 / 2, 0])
    with pytest.raises(ValueError, match="contradictory"):
        Posterior(3).update(0, failed=True)
