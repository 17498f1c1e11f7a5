"""What to change: effects computed again, the bottleneck as the largest derivative, recommendations with numbers."""

from __future__ import annotations

import msgspec

from preflight.cost.machine import Coefficients
from preflight.plan.advise.analysis import analysis_of
from preflight.plan.advise.attention import attention_of
from preflight.plan.advise.bottleneck import drivers, in_words
from preflight.plan.advise.more_gpus import more_gpus
from preflight.plan.advise.recommend import recommendations, together
from preflight.plan.advise.sensitivities import Tried, sensitivities, tried
from preflight.plan.advise.until_it_fits import until_it_fits
from preflight.plan.bandwidth import rates_of
from preflight.plan.request import Request
from preflight.vocabulary.plan import Bottleneck, Candidate, Driver, Sensitivity
from preflight.vocabulary.report import Recommendation


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be said about a layout."""

    sensitivities: tuple[Sensitivity, ...] = ()
    drivers: tuple[Driver, ...] = ()
    bottleneck: str | None = None
    recommendations: tuple[Recommendation, ...] = ()
    bottlenecks: tuple[Bottleneck, ...] = ()


def advise(request: Request, chosen: Candidate, coefficients: Coefficients | None = None) -> Advice:
    """Return the effects of changes on a settled request, its bottleneck, and what is worth changing.

    Without a time where the request asks for memory alone; with the analysis of bottlenecks where it asks for that.
    """
    trials = tried(request, coefficients)
    found = () if request.basic else drivers(request, coefficients)
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
        bottlenecks=_asked(request, chosen, trials, found) if request.bottlenecks else (),
    )


def _asked(
    request: Request, chosen: Candidate, trials: list[Tried], found: tuple[Driver, ...]
) -> tuple[Bottleneck, ...]:
    return analysis_of(chosen, trials, found, rates_of(request), attention_of(request))
