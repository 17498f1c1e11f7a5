"""How long a run takes: from a budget of tokens or steps and the time of a step."""

from __future__ import annotations

import math

from preflight.cost.parameters import count_parameters
from preflight.cost.step import tokens_of
from preflight.plan.request import Request
from preflight.vocabulary.plan import Candidate, Duration
from preflight.vocabulary.quantity import Interval

# Compute-optimal training takes about twenty tokens for every parameter (Hoffmann et al. 2022, arXiv 2203.15556); of a
# mixture of experts, for every parameter that a token passes through.
TOKENS_PER_PARAMETER = 20.0


def duration_of(request: Request, candidate: Candidate) -> Duration:
    """Return steps, tokens and seconds of the whole run.

    A budget of steps wins over one of tokens; without either, compute-optimal tokens are taken for what reads tokens and is
    trained as a whole.
    """
    run, step = candidate.run, candidate.step
    batch = run.global_batch or 0
    per_step = batch * tokens_of(request.model, run) if request.model.vocab else 0.0
    steps, tokens, reason = request.steps, request.tokens, None
    if steps is None and tokens is None and run.finetune in ("lora", "qlora"):
        return Duration(reason="no budget was given, and adapters are trained on as many tokens as there are: --tokens")
    if steps is None and tokens is None:
        tokens = optimal_tokens(request)
        reason = "no budget was given: compute-optimal tokens, twenty for every parameter"
    if steps is None:
        if not tokens or not per_step:
            return Duration(reason="no budget of steps was given, and the samples have no tokens")
        steps = math.ceil(tokens / per_step)
    tokens = steps * per_step if per_step else None
    if step is None:
        return Duration(steps=steps, tokens=tokens, reason="the time of a step is not known")
    return Duration(
        steps=steps, tokens=tokens, reason=reason,
        seconds=Interval(step.seconds.low * steps, step.seconds.mid * steps, step.seconds.high * steps),
    )  # fmt: skip


def optimal_tokens(request: Request) -> float | None:
    """Return the compute-optimal number of tokens of a model that reads tokens, or None."""
    model = request.model
    if not model.vocab:
        return None
    count = count_parameters(model)
    active = model.active_parameters or (count.total if count else None)
    return TOKENS_PER_PARAMETER * active if active else None
