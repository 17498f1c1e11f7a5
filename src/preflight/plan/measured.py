"""A step from what a dry run saw of it: for networks whose arithmetic no formula knows, spread over data-parallel ranks."""

from __future__ import annotations

import msgspec

from preflight.cost.collectives import gather
from preflight.cost.ledger import Ledger
from preflight.cost.machine import Machine
from preflight.cost.numeric import larger, smaller, where
from preflight.cost.stage_time import StageTime
from preflight.cost.step import groups_of, loading, straggling
from preflight.cost.update_time import synchronise, update_time
from preflight.plan.request import Measured
from preflight.vocabulary.run import ParallelDims, RunSpec
from preflight.vocabulary.step import StepBreakdown

# Forward and backward of a layer cost one and two thirds: two products in the backward pass for one in the forward pass.
_BACKWARD = 2 / 3


def measured_step(
    seen: Measured, run: RunSpec, parallel: ParallelDims, machine: Machine, ledger: Ledger
) -> StepBreakdown | None:
    """Return the seconds of a step, or None for layouts that divide the layers, of which one GPU's run says nothing.

    Kernels are taken to grow with the micro-batch; the host's part does not, and is what the kernels leave of it.
    """
    if parallel.tp * parallel.pp * parallel.cp * parallel.ep > 1:
        return None
    groups, pieces = groups_of(parallel), ledger.micro_batches
    kernels = seen.compute * float(run.micro_batch or 1) / seen.micro_batch
    idle = larger(seen.compute + seen.host - kernels, 0.0) if seen.host else 0.0
    body = StageTime(forward=kernels * (1 - _BACKWARD), backward=kernels * _BACKWARD, exposed=0.0, operators=0.0)
    sync = synchronise(run, parallel, machine, ledger, ledger, body, groups)
    sharded = _gathered(parallel, machine, ledger, kernels) * pieces
    slow = straggling(parallel, machine)
    busy = StepBreakdown(
        compute=kernels * pieces * slow,
        exposed_communication=(sync + sharded) * slow,
        optimizer=update_time(run, parallel, machine, ledger, ledger),
        host=idle * pieces + machine.coefficients.step,
    )
    if run.sample_seconds is None:
        return busy
    return msgspec.structs.replace(busy, data=loading(run, pieces, busy.total))


def _gathered(parallel: ParallelDims, machine: Machine, ledger: Ledger, kernels: float) -> float:
    """Return what full sharding leaves exposed in a micro-batch: weights gathered twice, gradients scattered once."""
    if parallel.zero_stage < 3:
        return 0.0
    group = groups_of(parallel)["dp_shard"]
    fetch = gather(machine, group, ledger.share.trainable * ledger.recipe.compute)
    scatter = gather(machine, group, ledger.share.trainable * ledger.recipe.gradient)
    together = 2 * fetch + scatter
    slowed = machine.coefficients.contention * smaller(together, kernels)
    return where(parallel.dp_shard > 1, larger(together - kernels, 0.0) + slowed, 0.0)
