"""What to change: effects computed again, the bottleneck as the largest derivative, recommendations with numbers."""

from __future__ import annotations

import msgspec

from preflight.cost.machine import Coefficients
from preflight.plan.advise.bottleneck import drivers, in_words
from preflight.plan.advise.more_gpus import more_gpus
from preflight.plan.advise.recommend import recommendations, together
from preflight.plan.advise.sensitivities import sensitivities, tried
from preflight.plan.advise.until_it_fits import until_it_fits
from preflight.plan.request import Request
from preflight.vocabulary.plan import Candidate, Driver, Sensitivity
from preflight.vocabulary.report import Recommendation


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be said about a layout."""

    sensitivities: tuple[Sensitivity, ...] = ()
    drivers: tuple[Driver, ...] = ()
    bottleneck: str | None = None
    recommendations: tuple[Recommendation, ...] = ()


def advise(request: Request, chosen: Candidate, coefficients: Coefficients | None = None) -> Advice:
    """Return the effects of changes on a settled request, its bottleneck, and what is worth changing."""
    trials = tried(request, coefficients)
    found = drivers(request, coefficients)
    spent = chosen.step.breakdown if chosen.step else None
    said = recommendations(chosen, trials)
    if chosen.memory.fits != "yes" and not any(trial.after.memory.fits == "yes" for trial in trials):
        steps = until_it_fits(request, coefficients)
        more = more_gpus(request, coefficients)
        said = (*((together(chosen, steps),) if steps else ()), *((more,) if more else ()), *said)
    return Advice(
        sensitivities=sensitivities(chosen, trials),
        drivers=found,
        bottleneck=in_words(found, spent.bubble / spent.total if spent else 0.0),
        recommendations=said,
    )
