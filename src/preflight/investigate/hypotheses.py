"""Causes and experiments: what a result makes of the probabilities, and which experiment to make next.

Every experiment says how probable each of its outcomes is under each cause. A result multiplies the probability of a cause
by that likelihood. The next experiment is the one whose result is expected to take away most uncertainty per GPU-minute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from preflight.catalog.experiment_files import load_experiments
from preflight.errors import UsageError, nearest
from preflight.vocabulary.experiment import Experiment
from preflight.vocabulary.incident import Hypothesis, Incident, NextStep
from preflight.vocabulary.quantity import format_share

ELSE = "something-else"
"""The cause that nobody has thought of."""
SURE = 0.95
LEAST_ELSE = 0.05
_FLOOR = 0.01
"""No outcome is less probable than this: experiments are described by people, and mistaken now and then."""
_LEAST_BITS = 0.02
_IDLE = 0.25
"""GPU-minutes that count for a minute of a person, where an experiment needs no GPU."""


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment with what it is worth.

    Attributes:
        experiment: Which. bits: Uncertainty that it is expected to take away. runs: How often it is run, for a failure that
            comes only now and then. cost: GPU-minutes. worth: Bits per GPU-minute.
        tells: By outcome: how probable it is, the likeliest cause afterwards and its probability.
    """

    experiment: Experiment
    bits: float
    runs: int
    cost: float
    worth: float
    tells: dict[str, tuple[float, str, float]]


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next, the best first; or why to stop."""

    ranked: tuple[Ranked, ...] = ()
    stop: str | None = None


def beliefs_of(causes: Incident | Mapping[str, float]) -> dict[str, float]:
    """Return probabilities of causes that add up to 1, with room for a cause that nobody has thought of.

    Raises:
        UsageError: A probability is negative, or there is no cause.
    """
    if isinstance(causes, Incident):
        causes = {one.cause: one.probability for one in causes.hypotheses}
    if not causes or any(not math.isfinite(p) or p < 0 for p in causes.values()) or not sum(causes.values()):
        raise UsageError("there are no causes with probabilities", "for example: broken-link=0.5,slow-rank=0.3")
    known = {name: p for name, p in causes.items() if name != ELSE}
    total = sum(known.values())
    other = max(causes.get(ELSE, 1.0 - total), LEAST_ELSE if total else 1.0)
    scale = (1.0 - other) / total if total > 0 and total + other > 1.0 else 1.0
    beliefs = {name: p * scale for name, p in known.items()} | {ELSE: other}
    whole = sum(beliefs.values())
    return {name: p / whole for name, p in beliefs.items()}


def likelihoods(experiment: Experiment, cause: str, chance: float = 1.0, runs: int = 1) -> tuple[float, ...]:
    """Return how probable each outcome is under a cause.

    Args:
        experiment: Which.
        cause: Under which.
        chance: How often the failure comes in a run.
        runs: How often the experiment is run: the failure stays away in all of them with (1 - chance) ** runs anyway.
    """
    expected = experiment.expects.get(cause, experiment.otherwise)
    if experiment.repeats is not None and chance < 1.0:
        away = (1.0 - chance) ** runs
        gone = [one.name for one in experiment.outcomes].index(experiment.repeats)
        expected = tuple(p + (1.0 - p) * away if k == gone else p * (1.0 - away) for k, p in enumerate(expected))
    raised = [max(p, _FLOOR) for p in expected]
    total = sum(raised)
    return tuple(p / total for p in raised)


def updated(
    beliefs: Mapping[str, float], experiment: Experiment, outcome: str, chance: float = 1.0, runs: int = 1
) -> dict[str, float]:
    """Return the probabilities after an outcome was seen.

    Raises:
        UsageError: The experiment has no such outcome.
    """
    names = [one.name for one in experiment.outcomes]
    if outcome not in names:
        near = nearest(outcome, names)
        raise UsageError(
            f"{experiment.id} has no outcome {outcome!r}",
            f"did you mean {near}?" if near else f"one of {', '.join(names)}",
        )
    at = names.index(outcome)
    after = {cause: p * likelihoods(experiment, cause, chance, runs)[at] for cause, p in beliefs.items()}
    total = sum(after.values())
    return {cause: p / total for cause, p in after.items()}


def entropy(beliefs: Mapping[str, float]) -> float:
    """Return the uncertainty in bits."""
    return -sum(p * math.log2(p) for p in beliefs.values() if p > 0.0)


def ranked(
    beliefs: Mapping[str, float], experiment: Experiment, *, gpus: int = 1, chance: float = 1.0, wrong: float = 0.1
) -> Ranked:
    """Return what an experiment is worth.

    Args:
        beliefs: Probabilities of causes.
        experiment: Which.
        gpus: Of the run.
        chance: How often the failure comes in a run.
        wrong: How probable it may be that the failure only stayed away.
    """
    runs = 1
    if experiment.repeats is not None and chance < 1.0:
        runs = max(1, math.ceil(math.log(wrong) / math.log(1.0 - chance)))
    bits, tells = entropy(beliefs), {}
    weights = {cause: likelihoods(experiment, cause, chance, runs) for cause in beliefs}
    for at, outcome in enumerate(experiment.outcomes):
        probability = sum(p * weights[cause][at] for cause, p in beliefs.items())
        after = {cause: p * weights[cause][at] / probability for cause, p in beliefs.items()}
        bits -= probability * entropy(after)
        first = max(sorted(after), key=lambda cause: after[cause])
        tells[outcome.name] = (probability, first, after[first])
    cost = runs * experiment.minutes * (experiment.gpus * gpus + _IDLE)
    return Ranked(
        experiment=experiment, bits=max(bits, 0.0), runs=runs, cost=cost, worth=max(bits, 0.0) / cost, tells=tells
    )


def advise(
    beliefs: Mapping[str, float],
    experiments: Sequence[Experiment] | None = None,
    *,
    done: Iterable[str] = (),
    gpus: int = 1,
    chance: float = 1.0,
    budget: float | None = None,
) -> Advice:
    """Return what to do next: by what is learnt per GPU-minute, or why to stop.

    Args:
        beliefs: Probabilities of causes.
        experiments: What can be done; None: those that are shipped.
        done: What was done already: the same experiment would say the same again.
        gpus: Of the run.
        chance: How often the failure comes in a run.
        budget: GPU-minutes that may still be spent.
    """
    first = max(sorted(beliefs), key=lambda cause: beliefs[cause])
    if beliefs[first] >= SURE and first != ELSE:
        return Advice(stop=f"{first} is {format_share(beliefs[first])} probable")
    past = set(done)
    found = [
        ranked(beliefs, one, gpus=gpus, chance=chance)
        for one in (load_experiments() if experiments is None else experiments)
        if one.id not in past
    ]
    telling = [one for one in found if one.bits >= _LEAST_BITS]
    if not telling:
        return Advice(stop="no experiment that is left tells these causes apart")
    affordable = [one for one in telling if budget is None or one.cost <= budget]
    if not affordable:
        least = min(one.cost for one in telling)
        return Advice(
            stop=f"the budget is spent: the cheapest experiment that tells something takes {least:.0f} GPU-minutes"
        )
    return Advice(ranked=tuple(sorted(affordable, key=lambda one: (-one.worth, one.experiment.id))))


def experiments_for(hypotheses: Sequence[Hypothesis], gpus: int = 1, most: int = 2) -> tuple[NextStep, ...]:
    """Return the experiments that tell most about the causes of an incident, as next steps.

    Args:
        hypotheses: The causes.
        gpus: Of the run.
        most: How many at most.
    """
    open_ = {one.cause: one.probability for one in hypotheses if one.probability > 0.0 and one.cause != ELSE}
    if len([p for p in open_.values() if p >= 0.1]) < 2:
        return ()
    beliefs = beliefs_of(open_)
    return tuple(
        NextStep(
            text=f"{one.experiment.title}: {one.experiment.how}", kind="observe", cost=f"{one.cost:.2g} GPU-minutes",
            tells=tuple(dict.fromkeys(
                cause for _, cause, after in one.tells.values() if cause != ELSE and after > beliefs[cause]
            )),
        )
        for one in advise(beliefs, gpus=gpus).ranked[:most]
    )  # fmt: skip


__all__ = [
    "ELSE",
    "SURE",
    "Advice",
    "Ranked",
    "advise",
    "beliefs_of",
    "entropy",
    "experiments_for",
    "likelihoods",
    "ranked",
    "updated",
]
