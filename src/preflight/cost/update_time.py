"""Seconds at the end of a step: gradients are reduced, clipped and applied."""

from __future__ import annotations

from preflight.cost.collectives import Group, all_reduce, gather
from preflight.cost.kernels import traffic_seconds
from preflight.cost.ledger import Ledger
from preflight.cost.machine import Machine
from preflight.cost.numeric import larger, smaller, where
from preflight.cost.stage_time import StageTime
from preflight.cost.states import sharding_ranks
from preflight.vocabulary.run import ParallelDims, RunSpec

# Even where reduction runs beside the backward pass, the last bucket has nothing left to hide behind.
_LAST_BUCKET = 0.05
# Seconds of a vectorised Adam on a host with two sockets for one parameter: 0.22 s for 1e9 of them to 2.57 s for 1e10
# (ZeRO-Offload, arXiv 2101.06840, table 4).
_HOST_STEP = 0.25e-9


def synchronise(
    run: RunSpec,
    parallel: ParallelDims,
    machine: Machine,
    first: Ledger,
    last: Ledger,
    body: StageTime,
    groups: dict[str, Group],
) -> float:
    """Return the exposed reduction of gradients, and the gathering of updated parameters.

    A reduction runs beside the last micro-batch's backward pass as far as the framework lets it. DeepSpeed without ZeRO
    reduces when the backward pass has ended.
    """
    local = larger(first.share.trainable, last.share.trainable)
    width = first.recipe.gradient
    beside = machine.coefficients.hidden * body.backward
    if parallel.framework == "deepspeed" and parallel.zero_stage == 0:
        beside = 0.0
    tied = _tied(parallel, machine, first, last, groups)
    if parallel.zero_stage >= 3:
        outer = all_reduce(machine, groups["dp_replicate"], width * local / (parallel.dp_shard * parallel.cp))
        return larger(outer - beside, 0.0) + tied
    whole = width * local
    if parallel.zero_stage == 0:
        seconds = all_reduce(machine, groups["dp"], whole)
        return larger(seconds - beside, _LAST_BUCKET * seconds) + tied
    scatter = gather(machine, groups["dp_shard"], whole)
    scatter = scatter + all_reduce(machine, groups["dp_replicate"], whole / (parallel.dp_shard * parallel.cp))
    updated = gather(machine, groups["dp_shard"], first.recipe.compute * local)
    return larger(scatter - beside, _LAST_BUCKET * scatter) + updated + tied


def _tied(parallel: ParallelDims, machine: Machine, first: Ledger, last: Ledger, groups: dict[str, Group]) -> float:
    """Return the all-reduce of a tied embedding's gradient between the first and the last stage (Megatron-LM)."""
    apart = Group(size=2.0, stride=groups["pp"].stride * larger(parallel.pp - 1, 1))
    size = first.recipe.gradient * last.share.embedding
    return where(parallel.pp > 1, all_reduce(machine, apart, size), 0.0)


def update_time(run: RunSpec, parallel: ParallelDims, machine: Machine, first: Ledger, last: Ledger) -> float:
    """Return the optimizer's step: every state is read and written, gradients read and zeroed.

    A fused kernel passes once over them; multi-tensor ones write their temporaries between the kernels. An optimizer on
    the host gets its gradients over the slot, steps on the processor, and sends the weights back.
    """
    if run.offload in ("optimizer", "parameters"):
        return _on_the_host(parallel, machine, larger(first.share.trainable, last.share.trainable))
    states = larger(first.states.optimizer, last.states.optimizer)
    gradients = larger(first.states.gradients, last.states.gradients)
    weights = larger(first.states.parameters, last.states.parameters)
    passes = 2.0 if not run.foreach or run.stack == "megatron" else 4.0
    size = passes * states + 3.0 * gradients + (passes - 1) * weights
    if run.clipping:
        size = size + 3.0 * gradients
    return machine.coefficients.optimizer * traffic_seconds(machine, size, 40.0)


def _on_the_host(parallel: ParallelDims, machine: Machine, trained: float) -> float:
    """Return the step of an optimizer whose states lie in the host's memory; the GPUs of a node share its processor."""
    ranks = sharding_ranks(parallel) if parallel.zero_stage else 1.0
    local = trained / ranks
    sharing = smaller(parallel.world_size, machine.gpus_per_node)
    return 2 * 2.0 * local / machine.host_link + _HOST_STEP * local * sharing
