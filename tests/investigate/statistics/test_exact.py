"""Exact tests against what is known of them, and against scipy where it is installed."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from preflight.investigate.statistics import binomial, poisson, rank_test, student
from preflight.investigate.statistics.multiple import benjamini_hochberg, holm


def test_the_rule_of_three() -> None:
    assert binomial.clean_runs(0.05) == 59
    assert binomial.clean_runs(0.3) == 9
    assert binomial.clean_runs(1.0) == 1
    assert binomial.upper_bound(0, 59) <= 0.05 < binomial.upper_bound(0, 58)
    assert binomial.upper_bound(0, 1000) == pytest.approx(3 / 1000, rel=0.01)


def test_a_ratio_of_shares_is_that_of_koopman_s_example_and_has_an_interval_at_shares_of_zero_and_one() -> None:
    assert binomial.share_ratio_interval(36, 40, 16, 80) == pytest.approx((2.94, 7.15), abs=0.01)
    low, high = binomial.share_ratio_interval(11, 11, 0, 5)
    assert binomial.fisher(11, 0, 0, 5) < 0.001
    # With every share there at 0 and here at 1, what is left of the statistic is 5 / (ratio - 1).
    assert low == pytest.approx(1 + 5 / 3.8415, rel=1e-4)
    assert high == math.inf
    assert binomial.share_ratio_interval(0, 5, 3, 6)[0] == 0.0
    assert binomial.share_ratio_interval(0, 5, 0, 6) == (0.0, math.inf)


@pytest.mark.parametrize(("here", "there"), [((11, 0.9), (5, 0.3)), ((20, 0.3), (20, 0.1)), ((6, 0.5), (30, 0.1))])
def test_the_interval_of_a_ratio_holds_the_true_one_about_as_often_as_it_says(
    here: tuple[int, float], there: tuple[int, float]
) -> None:
    (n, p), (m, q) = here, there
    held = 0.0
    for hits, others in itertools.product(range(n + 1), range(m + 1)):
        low, high = binomial.share_ratio_interval(hits, n, others, m)
        chance = (
            math.comb(n, hits)
            * p**hits
            * (1 - p) ** (n - hits)
            * math.comb(m, others)
            * q**others
            * (1 - q) ** (m - others)
        )
        held += chance * (low <= p / q <= high)
    assert 0.94 <= held <= 0.98


def test_an_interval_holds_the_true_rate_as_often_as_it_says() -> None:
    for rate, count in itertools.product((0.02, 0.3, 0.5), (5, 20, 60)):
        held = sum(
            binomial.at_least(k, count, rate) - binomial.at_least(k + 1, count, rate)
            for k in range(count + 1)
            if binomial.interval(k, count)[0] <= rate <= binomial.interval(k, count)[1]
        )
        assert held >= 0.95


def test_one_chosen_failure_says_nothing_of_how_often_it_happens() -> None:
    assert binomial.all_of_them_before(1, 1, 1000, chosen=True) == pytest.approx(1.0)
    assert binomial.all_of_them_before(1, 1, 19, chosen=False) == pytest.approx(0.05)
    assert binomial.all_of_them_before(3, 3, 4, chosen=True) < 0.05 < binomial.all_of_them_before(3, 3, 3, chosen=True)


def test_the_sequential_test_is_wrong_as_rarely_as_it_says() -> None:
    draw = random.Random(3)
    wrong = 0
    for _ in range(2000):
        failed = 0
        for runs in range(1, 400):
            failed += draw.random() < 0.2
            state = binomial.sequential(failed, runs, 0.2, 0.01)
            if state.verdict != "undecided":
                break
        wrong += state.verdict == "gone"
    assert wrong / 2000 <= 0.05
    assert binomial.sequential(0, 1, 1.0, 0.01).verdict == "gone"


def test_corrections_for_many_tests() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])
    assert holm([]) == benjamini_hochberg([]) == []


def test_ranks_in_every_order_are_counted() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    choices = itertools.combinations(values, 3)
    chances = [rank_test.larger(ones, [one for one in values if one not in ones]) for ones in choices]
    # An exact test reaches each of its levels exactly.
    for level in set(chances):
        assert sum(one <= level + 1e-12 for one in chances) / len(chances) == pytest.approx(level)
    assert rank_test.larger([4, 5, 6], [1, 2, 3]) == pytest.approx(1 / 20)


def test_everything_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = random.Random(5)
    for _ in range(60):
        count = draw.randint(1, 400)
        hits = draw.randint(0, count)
        chance = draw.random()
        assert binomial.at_least(hits, count, chance) == pytest.approx(
            stats.binom.sf(hits - 1, count, chance), abs=1e-9
        )
        exact = stats.binomtest(hits, count).proportion_ci(0.95, "exact")
        assert binomial.interval(hits, count) == pytest.approx((exact.low, exact.high), abs=1e-9)
        low, high = poisson.rate_interval(hits, 2.0)
        assert low == pytest.approx(stats.chi2.ppf(0.025, 2 * hits) / 4 if hits else 0.0, rel=1e-6)
        assert high == pytest.approx(stats.chi2.ppf(0.975, 2 * hits + 2) / 4, rel=1e-6)
        table = [draw.randint(0, 30) for _ in range(4)]
        expected = stats.fisher_exact([table[:2], table[2:]], alternative="greater").pvalue
        assert binomial.fisher(*table) == pytest.approx(expected, abs=1e-9)
        t, freedom = draw.gauss(0, 3), draw.randint(1, 200)
        assert student.upper_tail(t, freedom) == pytest.approx(stats.t.sf(t, freedom), rel=1e-3, abs=1e-9)
        assert student.quantile(0.025, freedom) == pytest.approx(stats.t.isf(0.025, freedom), rel=1e-4)
        ones = [draw.gauss(0.3, 1) for _ in range(draw.randint(2, 40))]
        others = [draw.gauss(0, 1) for _ in range(draw.randint(2, 40))]
        method = "exact" if len(ones) + len(others) <= rank_test.EXACT else "asymptotic"
        expected = stats.mannwhitneyu(ones, others, alternative="greater", method=method).pvalue
        assert rank_test.larger(ones, others) == pytest.approx(expected, rel=1e-6)
