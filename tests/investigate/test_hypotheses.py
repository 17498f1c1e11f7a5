"""Hypotheses: Bayes by hand, the experiment that tells most, and whether simulated investigations end at the right cause."""

from __future__ import annotations

import math
import random

import pytest

from preflight.catalog.experiment_files import load_experiments
from preflight.catalog.remedy_files import load_remedies
from preflight.errors import UsageError
from preflight.investigate.hypotheses import (
    ELSE,
    advise,
    beliefs_of,
    entropy,
    experiments_for,
    likelihoods,
    ranked,
    updated,
)
from preflight.vocabulary.experiment import Experiment, Outcomes
from preflight.vocabulary.incident import Hypothesis

EXPERIMENTS = load_experiments()
BY_NAME = {one.id: one for one in EXPERIMENTS}


def experiment(
    name: str, minutes: float, otherwise: tuple[float, float] = (0.1, 0.9), **expects: tuple[float, float]
) -> Experiment:
    return Experiment(
        id=name, title=name, how="", minutes=minutes, gpus=1.0, outcomes=(Outcomes("gone", ""), Outcomes("stays", "")),
        repeats="gone", expects=expects, otherwise=otherwise, sources=("here",),
    )  # fmt: skip


def test_the_experiments_that_everybody_makes_are_there() -> None:
    assert set(BY_NAME) >= {
        "launch-blocking", "replay-on-cpu", "other-node", "no-loader-workers", "eager", "peer-to-peer-off",
        "infiniband-off", "float32", "previous-checkpoint", "previous-image",
    }  # fmt: skip
    for one in EXPERIMENTS:
        assert one.changes == () or one.undo or one.id == "no-loader-workers", f"{one.id} says not how it is undone"
    causes = {cause for one in EXPERIMENTS for cause in one.expects}
    assert not causes - {cause for one in load_remedies() for cause in one.causes} - {"clocks-apart"}


def test_beliefs_add_up_and_leave_room_for_what_nobody_thought_of() -> None:
    assert beliefs_of({"a": 0.5, "b": 0.3}) == pytest.approx({"a": 0.5, "b": 0.3, ELSE: 0.2})
    full = beliefs_of({"a": 3.0, "b": 1.0})
    assert sum(full.values()) == pytest.approx(1.0)
    assert full[ELSE] == pytest.approx(0.05)
    assert full["a"] == pytest.approx(3 * full["b"])
    with pytest.raises(UsageError):
        beliefs_of({})
    with pytest.raises(UsageError):
        beliefs_of({"a": -1.0})


def test_a_result_multiplies_by_its_likelihood() -> None:
    one = experiment("x", 1, a=(0.9, 0.1), b=(0.3, 0.7))
    after = updated({"a": 0.5, "b": 0.25, ELSE: 0.25}, one, "gone")
    # 0.45 : 0.075 : 0.025
    assert after == pytest.approx({"a": 0.45 / 0.55, "b": 0.075 / 0.55, ELSE: 0.025 / 0.55})
    with pytest.raises(UsageError, match="no outcome 'went'"):
        updated({"a": 1.0}, one, "went")


def test_a_failure_that_comes_now_and_then_makes_gone_say_little() -> None:
    one = experiment("x", 1, a=(0.9, 0.1))
    # Stays away in a run anyway with 0.7: 0.9 + 0.1 x 0.7 and 0.1 + 0.9 x 0.7.
    assert likelihoods(one, "a", chance=0.3)[0] == pytest.approx(0.97)
    assert likelihoods(one, "other", chance=0.3)[0] == pytest.approx(0.73)
    beliefs = {"a": 0.5, ELSE: 0.5}
    assert ranked(beliefs, one, chance=0.3).runs == math.ceil(math.log(0.1) / math.log(0.7))
    assert ranked(beliefs, one, chance=0.3).cost == pytest.approx(7 * ranked(beliefs, one).cost)


def test_the_cheapest_experiment_that_tells_them_apart_is_next() -> None:
    cheap_useless = experiment("useless", 0.1, (0.5, 0.5), a=(0.5, 0.5), b=(0.5, 0.5))
    dear = experiment("dear", 100, a=(0.99, 0.01), b=(0.01, 0.99))
    fair = experiment("fair", 10, a=(0.95, 0.05), b=(0.05, 0.95))
    beliefs = {"a": 0.48, "b": 0.48, ELSE: 0.04}
    advice = advise(beliefs, [cheap_useless, dear, fair])
    assert [one.experiment.id for one in advice.ranked][:2] == ["fair", "dear"]
    assert advice.ranked[0].bits == pytest.approx(
        entropy(beliefs)
        - sum(p * entropy(updated(beliefs, fair, name)) for name, (p, _, _) in advice.ranked[0].tells.items())
    )


def test_it_stops_when_it_is_sure_broke_or_out_of_experiments() -> None:
    one = experiment("x", 10, a=(0.9, 0.1))
    assert "a is 96 % probable" in (advise({"a": 0.96, ELSE: 0.04}, [one]).stop or "")
    assert "no experiment" in (advise({"a": 0.5, ELSE: 0.5}, [one], done=["x"]).stop or "")
    assert "budget" in (advise({"a": 0.5, ELSE: 0.5}, [one], budget=1.0).stop or "")
    unknown = advise({"a": 0.001, ELSE: 0.999}, [one]).stop or ""
    assert "no experiment" in unknown  # being sure that it is nothing known is no answer


CASES = [
    (
        "a hang",
        {"slow-loader": 0.2, "broken-link": 0.2, "collective-mismatch": 0.2, "peer-dead": 0.2, "long-checkpoint": 0.15},
    ),
    ("an assertion", {"index-out-of-range": 0.4, "device-fault": 0.2, "kernel-bug": 0.2, "code-generation": 0.15}),
    ("not a number", {"learning-rate-too-high": 0.3, "bad-batch": 0.25, "fp16-overflow": 0.2, "device-fault": 0.2}),
    (
        "out of memory",
        {"batch-too-large": 0.35, "memory-grows": 0.2, "fragmentation": 0.2, "other-process-on-device": 0.2},
    ),
]


@pytest.mark.parametrize(("what", "causes"), CASES)
def test_simulated_investigations_end_at_the_right_cause(what: str, causes: dict[str, float]) -> None:
    """Outcomes are drawn from what the true cause lets expect; a confident answer is to be right as often as it says."""
    rng = random.Random(what)
    answered = right = spent = 0
    for _ in range(150):
        truth = rng.choices(list(causes), list(causes.values()))[0]
        beliefs, done = beliefs_of(causes), []
        while (advice := advise(beliefs, EXPERIMENTS, done=done)).stop is None:
            one = advice.ranked[0].experiment
            outcome = rng.choices([o.name for o in one.outcomes], likelihoods(one, truth))[0]
            beliefs = updated(beliefs, one, outcome)
            done.append(one.id)
            spent += 1
        first = max(beliefs, key=lambda cause: beliefs[cause])
        if beliefs[first] >= 0.95:
            answered += 1
            right += first == truth
    assert answered >= 100, (what, answered)
    # 95 % is what it says; three standard deviations of so many draws below that would be a wrong promise.
    assert right / answered >= 0.95 - 3 * (0.95 * 0.05 / answered) ** 0.5, (what, right, answered)


def test_experiments_become_next_steps_where_causes_are_open() -> None:
    def hypothesis(cause: str, probability: float) -> Hypothesis:
        return Hypothesis(cause=cause, title=cause, category="network", probability=probability)

    steps = experiments_for([hypothesis("slow-loader", 0.5), hypothesis("broken-link", 0.4)], gpus=8)
    assert len(steps) == 2
    assert {"slow-loader", "broken-link"} & set(steps[0].tells)
    assert "GPU-minutes" in (steps[0].cost or "")
    assert experiments_for([hypothesis("slow-loader", 0.9), hypothesis("broken-link", 0.05)]) == ()
    assert experiments_for([]) == ()
