"""How sure the order of layouts is: their times under what the coefficients could be, and what would settle it.

Times of two layouts of one run err together: a slower network slows both. What matters is how their ratio moves, so every
finalist is worked out again under the same draws from the priors of the coefficients.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy

from preflight.cost.machine import Coefficients
from preflight.plan.calibration.prior import PRIORS
from preflight.plan.evaluate import evaluate
from preflight.plan.request import Request
from preflight.vocabulary.plan import Candidate
from preflight.vocabulary.run import ParallelDims

DRAWS = 256
_SEED = 20260
_SURE, _CHANCE = 0.05, 0.02
# Differences of a fifth of a per cent are none: the formulas know no step so well.
_ALIKE = 0.002


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """What the priors leave open between layouts.

    Attributes:
        chances: Of each, to be the quickest.
        regrets: Of each, by how much it is slower than the quickest, on average over the draws, as a share.
        safest: The one with the least regret; of those that are alike in it, the one that needs least memory.
        rivals: Those that are quicker than the safest in at least one draw of twenty, and the quickest of all in some, the
            strongest first.
        shares: Of the doubt between the safest and its strongest rival, the part that each coefficient explains.
    """

    chances: tuple[float, ...]
    regrets: tuple[float, ...]
    safest: int
    rivals: tuple[int, ...]
    shares: dict[str, float]


def doubt_of(request: Request, candidates: tuple[Candidate, ...], given: Coefficients | None = None) -> Doubt | None:
    """Return how sure the order of candidates is, or None where there is one alone or times are not known."""
    draws = _draws(given or request.coefficients or Coefficients())
    coefficients = Coefficients(**draws)
    rows = [_seconds(request, one, coefficients) for one in candidates]
    if len(rows) < 2 or any(row is None for row in rows):
        return None
    times = numpy.log(numpy.stack(rows))
    quickest = times.argmin(axis=0)
    chances = tuple(float((quickest == index).mean()) for index in range(len(rows)))
    regrets = tuple(float(value) for value in numpy.expm1(times - times.min(axis=0)).mean(axis=1))
    alike = [index for index in range(len(rows)) if regrets[index] <= min(regrets) + _ALIKE]
    safest = min(alike, key=lambda index: (_bytes(candidates[index]), index))
    quicker = (times < times[safest]).mean(axis=1) >= _SURE
    able = [int(index) for index in quicker.nonzero()[0] if chances[int(index)] >= _CHANCE]
    rivals = sorted(able, key=lambda index: (-chances[index], index))
    shares = _explained(times[rivals[0]] - times[safest], draws) if rivals else {}
    return Doubt(chances=chances, regrets=regrets, safest=safest, rivals=tuple(rivals), shares=shares)


def _bytes(one: Candidate) -> float:
    return one.memory.device_bytes.mid if one.memory.device_bytes is not None else float("inf")


def _draws(base: Coefficients) -> dict[str, Any]:
    """Return coefficients that the priors admit, the same ones every time."""
    random = numpy.random.default_rng(_SEED)
    drawn: dict[str, Any] = {}
    for name, prior in PRIORS.items():
        value = getattr(base, name) * numpy.exp(prior.spread * random.standard_normal(DRAWS))
        drawn[name] = value if prior.most is None else numpy.minimum(value, prior.most)
    return drawn


def _seconds(request: Request, one: Candidate, coefficients: Coefficients) -> Any:
    """Return the seconds for a sample under every draw."""
    parallel: ParallelDims = one.parallel
    known = evaluate(request.model, one.run, parallel, request.cluster, coefficients)
    if known.step is None:
        return None
    return numpy.broadcast_to(known.step.total / (one.run.global_batch or 1), (DRAWS,))


def _explained(difference: Any, draws: dict[str, Any]) -> dict[str, float]:
    """Return which part of the variance of a difference each coefficient explains on its own."""
    if difference.std() < 1e-12:
        return {}
    found = {}
    for name, values in draws.items():
        logs = numpy.log(values)
        if logs.std() > 0:
            share = float(numpy.corrcoef(logs, difference)[0, 1] ** 2)
            if share > 0.02:
                found[name] = share
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))
