"""Seconds of an optimizer step: stages, pipeline, collectives, optimizer.

The order of ranks is Megatron's: tensor parallel varies fastest, then context, sharded data, replicated data, and the
pipeline slowest, so that the busiest groups lie inside a node.
"""

from __future__ import annotations

import msgspec

from preflight.cost.collectives import Group, transfer
from preflight.cost.ledger import Ledger
from preflight.cost.machine import Machine
from preflight.cost.numeric import larger, logarithm2, where
from preflight.cost.offload import offload_time
from preflight.cost.shares import stage_share
from preflight.cost.stage_time import (
    StageTime,
    block_time,
    block_tokens,
    body_time,
    embedding_time,
    head_time,
    sharded_ends,
    tokens_of,
)
from preflight.cost.update_time import synchronise, update_time
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec
from preflight.vocabulary.step import StepBreakdown

# What is left of the waiting of 1F1B: with gradients of inputs (B) and of weights (W) apart, ZB-H1 waits for
# (p - 1)(F + B - W), a third where all three are alike, and ZB-H2 not at all (Qi et al. 2023, table 1).
_WAITING = {"1f1b": 1.0, "gpipe": 1.0, "zb1p": 1 / 3, "zb2p": 0.0}

__all__ = ["groups_of", "hop_seconds", "loading", "stage_times", "step_of", "straggling", "tokens_of"]


def groups_of(parallel: ParallelDims) -> dict[str, Group]:
    """Return the groups of a rank by axis."""
    cp = parallel.tp
    shard = cp * parallel.cp
    replicate = shard * parallel.dp_shard
    pipeline = replicate * parallel.dp_replicate
    return {
        "tp": Group(size=parallel.tp),
        "cp": Group(size=parallel.cp, stride=cp),
        "ep": Group(size=parallel.ep, stride=cp),
        "dp_shard": Group(size=parallel.dp_shard * parallel.cp, stride=cp),
        "dp_replicate": Group(size=parallel.dp_replicate, stride=replicate),
        "dp": Group(size=parallel.dp_shard * parallel.dp_replicate * parallel.cp, stride=cp),
        "pp": Group(size=parallel.pp, stride=pipeline),
    }


def step_of(
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    machine: Machine,
    first: Ledger,
    last: Ledger,
) -> StepBreakdown:
    """Return the seconds of one optimizer step.

    Args:
        model: A transformer.
        run: Batch, length, precision, recomputation.
        parallel: How it is spread.
        machine: The rates.
        first: The ledger of the first pipeline stage.
        last: That of the last one.
    """
    groups = groups_of(parallel)
    front, body, end, both = stage_times(model, run, parallel, machine, first)
    single = parallel.pp == 1
    m, p, v = first.micro_batches, parallel.pp, parallel.vp
    slowest = where(single, both.total, larger(front.total, end.total))
    # One micro-batch passes through every stage; the others follow behind the slowest one.
    through = where(single, both.total, front.total + end.total + (p - 2) * body.total)
    hops = _hops(model, run, parallel, machine, first)
    bubble = _WAITING[parallel.schedule] * (through - slowest) / v
    ahead = front.total > end.total
    exposed = where(single, both.exposed, where(ahead, front.exposed, end.exposed)) * m
    host = where(single, both.host, where(ahead, front.host, end.host)) * m
    sync = synchronise(run, parallel, machine, first, last, body, groups)
    update = update_time(run, parallel, machine, first, last)
    fetched = offload_time(run, parallel, machine, first, last, body)
    slow = straggling(parallel, machine)
    spent = StepBreakdown(
        compute=(m * slowest - exposed - host) * slow,
        exposed_communication=(exposed + hops + sync + fetched) * slow,
        bubble=bubble * slow,
        optimizer=update,
        host=host * slow + machine.coefficients.step,
    )
    if run.sample_seconds is None:
        return spent
    return msgspec.structs.replace(spent, data=loading(run, m, spent.total))


def loading(run: RunSpec, micro_batches: float, beside: float) -> float:
    """Return what a step waits for its samples: workers load those of the next one beside it, the process itself does not.

    Args:
        run: Workers, and what one of them needs for a sample.
        micro_batches: Those of a step on one rank.
        beside: Seconds of the step without its data.
    """
    seconds = (run.sample_seconds or 0.0) * micro_batches * (run.micro_batch or 1)
    if run.loader_workers == 0:
        return seconds
    return larger(seconds / (run.loader_workers or 1) - beside, 0.0)


def straggling(parallel: ParallelDims, machine: Machine) -> float:
    """Return the factor by which a step grows because the slowest of many nodes is waited for."""
    nodes = larger(parallel.world_size / machine.gpus_per_node, 1.0)
    return 1 + machine.coefficients.straggler * logarithm2(nodes)


def stage_times(
    model: ModelSpec, run: RunSpec, parallel: ParallelDims, machine: Machine, ledger: Ledger
) -> tuple[StageTime, StageTime, StageTime, StageTime]:
    """Return one micro-batch on the first stage, on one in the middle, on the last, and on a single one."""
    layer = block_time(model, run, parallel, machine, ledger)
    groups = groups_of(parallel)
    even = body_time(model, run, parallel, machine, ledger, layer, groups)
    front, body, back = even, even, even
    if parallel.first_layers is not None or parallel.last_layers is not None:
        front, body, back = (
            even.scaled(stage_share(model, parallel, first, last) * parallel.pp)
            for first, last in ((True, False), (False, False), (False, True))
        )
    ends = sharded_ends(parallel, machine, ledger, groups)
    front, body, back = front + ends, body + ends, back + ends
    head = head_time(model, run, parallel, machine, ledger)
    front = front + embedding_time(model, run, parallel, machine, ledger)
    graphs = run.cuda_graphs
    return (
        front.waited(machine, graphs), body.waited(machine, graphs), (back + head).waited(machine, graphs),
        (front + head).waited(machine, graphs),
    )  # fmt: skip


def hop_seconds(model: ModelSpec, run: RunSpec, parallel: ParallelDims, machine: Machine, ledger: Ledger) -> float:
    """Return the seconds of one micro-batch's way from a stage to the next."""
    tokens = run.samples * block_tokens(model, run) / parallel.cp
    divided = parallel.tp if parallel.sequence_parallel or parallel.framework == "megatron" else 1.0
    size = tokens * float(model.hidden or 0) * ledger.recipe.residual / divided
    return transfer(machine, groups_of(parallel)["pp"].stride, size)


def _hops(model: ModelSpec, run: RunSpec, parallel: ParallelDims, machine: Machine, ledger: Ledger) -> float:
    """Return the transfers between stages that nothing hides: all while the pipeline fills and empties, a share between."""
    m, p, v = ledger.micro_batches, parallel.pp, parallel.vp
    one = hop_seconds(model, run, parallel, machine, ledger)
    given = machine.coefficients
    seconds = 2 * one * ((p - 1) + v * m * given.transfer) + 2 * given.hop * ((p - 1) + v * m)
    return where(p == 1, 0.0, seconds)
