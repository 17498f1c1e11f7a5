"""From observations to probabilities of causes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module

import msgspec

from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation
from preflight.listing import modules_beside
from preflight.vocabulary.incident import Hypothesis, Reason

_NOT_OBSERVATIONS = ("__init__.py", "observation.py", "weighing.py")
# Observations of one incident are not independent: together they move a cause by no more than a factor of 150 (e^5).
MOST = 5.0
LEFT = 0.02


@cache
def kinds() -> tuple[str, ...]:
    """Return the kinds of observations by the names under which signatures ask for them: the files of this folder."""
    return tuple(sorted(name.replace("_", "-") for name in modules_beside(__file__, but=_NOT_OBSERVATIONS)))


def observed_in(scene: Scene) -> dict[str, tuple[Observation, ...]]:
    """Return what each kind finds, in the order of their names; kinds that find nothing are left out."""
    found = {kind: tuple(_of_kind(kind, scene)) for kind in kinds()}
    return {kind: observations for kind, observations in found.items() if observations}


def _of_kind(kind: str, scene: Scene) -> Iterator[Observation]:
    module = import_module(f"preflight.investigate.observations.{kind.replace('-', '_')}")
    yield from module.observe(scene)


def weighed(hypotheses: Sequence[Hypothesis], observed: dict[str, tuple[Observation, ...]]) -> tuple[Hypothesis, ...]:
    """Return the hypotheses with their probabilities after what was observed; they add up to what they did before.

    The odds of each cause are multiplied by the likelihood ratios of the observations (Bayes); what has been looked at
    is no longer named as what would tell the causes apart.
    """
    everything = [one for observations in observed.values() for one in observations]
    total = sum(one.probability for one in hypotheses)
    moved = [_moved(one, everything) for one in hypotheses]
    named = sum(weight for one, weight in moved if not _nameless(one))
    if not named:
        return tuple(hypotheses)
    # Whatever is observed, a cause that nothing names stays possible.
    moved = [(one, max(weight, LEFT * named) if _nameless(one) else weight) for one, weight in moved]
    whole = sum(weight for _, weight in moved)
    found = [
        msgspec.structs.replace(
            one,
            probability=total * weight / whole,
            discriminated_by=tuple(name for name in one.discriminated_by if name not in observed),
        )
        for one, weight in moved
    ]
    last = [one for one in found if _nameless(one)]
    rest = sorted((one for one in found if one not in last), key=lambda one: -one.probability)
    return (*rest, *last)


def _nameless(hypothesis: Hypothesis) -> bool:
    """Whether it stands for what no signature names."""
    return hypothesis.cause == "something-else"


def _moved(hypothesis: Hypothesis, observations: Iterable[Observation]) -> tuple[Hypothesis, float]:
    """Return a hypothesis with the reasons for and against it, and its weight."""
    reasons, moved = [], 0.0
    for one in observations:
        ratio = one.odds.get(hypothesis.cause)
        if ratio:
            reasons.append(Reason(text=one.text, weight=ratio, quotes=one.quotes))
            moved += ratio
    weight = hypothesis.probability * math.exp(max(-MOST, min(MOST, moved)))
    reasons.sort(key=lambda one: -abs(one.weight))
    return msgspec.structs.replace(hypothesis, reasons=(*reasons, *hypothesis.reasons)), weight
