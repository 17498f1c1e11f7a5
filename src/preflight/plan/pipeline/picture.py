"""The pipeline of a plan, simulated: how long it really takes, and the picture of its beginning and end."""

from __future__ import annotations

from preflight.cost.ledger import ledger_if_known, micro_batches_of
from preflight.cost.machine import Coefficients, machine_of
from preflight.cost.parameters import is_transformer
from preflight.cost.stage_time import StageTime
from preflight.cost.step import hop_seconds
from preflight.plan.changes import layout_of
from preflight.plan.pipeline.exact import played, schedule_of, stages_of
from preflight.plan.pipeline.orders import Schedule
from preflight.plan.pipeline.simulate import Timeline
from preflight.plan.request import Request
from preflight.vocabulary.plan import Pipeline, PipelineSpan

_MOST_WORK = 60_000
_MOST_SPANS = 1_500


def pipeline_of(request: Request, coefficients: Coefficients | None = None) -> Pipeline | None:
    """Return the simulated pipeline of a settled request, or None where there is one stage or no known arithmetic."""
    model, run, parallel = request.model, request.run, layout_of(request)
    machine = machine_of(request.cluster, run, coefficients or request.coefficients)
    ledger = ledger_if_known(model, run, parallel, request.cluster.gpu, 0)
    if parallel.pp == 1 or machine is None or ledger is None or not is_transformer(model):
        return None
    stages = stages_of(model, run, parallel, machine, ledger)
    hop = hop_seconds(model, run, parallel, machine, ledger)
    micro = int(micro_batches_of(run, parallel))
    schedule = schedule_of(parallel, micro)
    if schedule is None:
        return None
    whole = _run(stages, micro, schedule, parallel.vp, hop)
    shown = micro
    while 2 * shown * parallel.pp * parallel.vp > _MOST_SPANS and shown > 2 * parallel.pp:
        shown = max(shown // 2 // parallel.pp, 2) * parallel.pp
    drawn = whole if shown == micro and whole is not None else _run(stages, shown, schedule, parallel.vp, hop)
    if drawn is None:
        return None
    slowest = max(stage.total for stage in stages)
    # Beyond what is simulated, every further micro-batch costs what the slowest stage takes for it.
    seconds = whole.seconds if whole is not None else drawn.seconds + (micro - shown) * slowest
    return Pipeline(
        schedule=schedule, seconds=seconds, bubble=max(1 - micro * slowest / seconds, 0.0), micro_batches=micro,
        shown_micro_batches=shown,
        spans=tuple(
            PipelineSpan(stage=span.stage, kind=span.kind, micro=span.micro, chunk=span.chunk, start=span.start, end=span.end)
            for span in drawn.spans[: 4 * _MOST_SPANS]
        ),
    )  # fmt: skip


def _run(stages: list[StageTime], micro: int, schedule: Schedule, chunks: int, hop: float) -> Timeline | None:
    """Simulate, unless there is too much of it."""
    if 2 * micro * len(stages) * chunks > _MOST_WORK:
        return None
    return played(stages, micro, schedule, chunks, hop)
