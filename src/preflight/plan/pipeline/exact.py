"""The bubble of a pipeline as its schedule really has it, in place of the closed form that a search goes by."""

from __future__ import annotations

import msgspec

from preflight.cost.ledger import Ledger
from preflight.cost.machine import Machine
from preflight.cost.stage_time import StageTime
from preflight.cost.step import stage_times, straggling
from preflight.plan.pipeline.orders import Schedule
from preflight.plan.pipeline.simulate import Timeline, simulate
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec
from preflight.vocabulary.step import StepBreakdown

_MOST_WORK = 8_000


def schedule_of(parallel: ParallelDims, micro_batches: int) -> Schedule | None:
    """Return what is simulated of a layout's schedule; None for ZB-H2, which does not wait."""
    if parallel.vp > 1:
        return "interleaved" if micro_batches % parallel.pp == 0 else "1f1b"
    named: dict[str, Schedule] = {"1f1b": "1f1b", "gpipe": "gpipe", "zb1p": "zb-h1"}
    return named.get(parallel.schedule)


def with_exact_bubble(
    model: ModelSpec, run: RunSpec, parallel: ParallelDims, machine: Machine, first: Ledger, spent: StepBreakdown
) -> StepBreakdown:
    """Return a step with the bubble of its simulated schedule; as it is where that would take too long.

    The closed form lets one micro-batch pass through all stages and the others follow the slowest one. That is exact for
    even stages; where the last one has the output matrix, waiting also spreads into the steady phase. Once the pipeline
    is full every micro-batch costs the same, so that three rounds of the stages tell the waiting of any number of them.
    """
    schedule = schedule_of(parallel, int(first.micro_batches))
    if parallel.pp == 1 or schedule is None:
        return spent
    stages = stages_of(model, run, parallel, machine, first)
    micro, chunks = int(first.micro_batches), parallel.vp
    chunks = chunks if schedule == "interleaved" else 1
    rounds = min(micro, 3 * parallel.pp)
    if 2 * rounds * parallel.pp * chunks > _MOST_WORK:
        return spent
    waiting = played(stages, rounds, schedule, chunks).seconds - rounds * max(stage.total for stage in stages)
    return msgspec.structs.replace(spent, bubble=max(waiting, 0.0) * straggling(parallel, machine))


def stages_of(
    model: ModelSpec, run: RunSpec, parallel: ParallelDims, machine: Machine, first: Ledger
) -> list[StageTime]:
    """Return one micro-batch on every stage of a pipeline."""
    front, body, end, _ = stage_times(model, run, parallel, machine, first)
    return [front, *([body] * (parallel.pp - 2)), end]


def played(stages: list[StageTime], micro_batches: int, schedule: Schedule, chunks: int, hop: float = 0.0) -> Timeline:
    """Simulate stages; what the collectives and the host take is spread over both passes."""
    shares = [(stage.total, stage.forward / (stage.forward + stage.backward)) for stage in stages]
    ahead = [total * share for total, share in shares]
    behind = [total * (1 - share) for total, share in shares]
    return simulate(ahead, behind, micro_batches, schedule, chunks, hop)
