"""A step of a network without blocks of one kind: micro-batches whose seconds are known, spread over data-parallel ranks."""

from __future__ import annotations

import msgspec

from preflight.cost.collectives import gather
from preflight.cost.ledger import Ledger
from preflight.cost.machine import Machine
from preflight.cost.networks.seconds import network_time
from preflight.cost.numeric import larger, smaller, where
from preflight.cost.parameters import is_transformer
from preflight.cost.stage_time import StageTime
from preflight.cost.step import groups_of, loading, step_of, straggling
from preflight.cost.update_time import synchronise, update_time
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec
from preflight.vocabulary.step import StepBreakdown


def step_is_known(model: ModelSpec) -> bool:
    """Return whether the arithmetic of an architecture is known: by formula, written down, or counted."""
    counted = bool(model.forward_flops and model.activation_elements)
    return is_transformer(model) or model.network is not None or counted


def known_step(
    model: ModelSpec, run: RunSpec, parallel: ParallelDims, machine: Machine, first: Ledger, last: Ledger
) -> StepBreakdown | None:
    """Return the seconds of a step, or None where the arithmetic of the architecture is not known."""
    if is_transformer(model):
        return step_of(model, run, parallel, machine, first, last)
    body = network_time(model, run, first.recipe, machine)
    return spread_step(body, run, parallel, machine, first) if body is not None else None


def spread_step(
    body: StageTime, run: RunSpec, parallel: ParallelDims, machine: Machine, ledger: Ledger
) -> StepBreakdown:
    """Return the seconds of a step from those of a micro-batch; layouts that divide the network itself are not known."""
    groups, pieces = groups_of(parallel), ledger.micro_batches
    waited = body.waited(machine) if body.operators else body
    kernels = waited.forward + waited.backward
    sync = synchronise(run, parallel, machine, ledger, ledger, waited, groups)
    sharded = _gathered(parallel, machine, ledger, kernels) * pieces
    slow = straggling(parallel, machine)
    busy = StepBreakdown(
        compute=kernels * pieces * slow,
        exposed_communication=(sync + sharded) * slow,
        optimizer=update_time(run, parallel, machine, ledger, ledger),
        host=waited.host * pieces + machine.coefficients.step,
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
