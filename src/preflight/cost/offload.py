"""Seconds that the host's memory costs: weights are fetched from it, activations sent there and back."""

from __future__ import annotations

from preflight.cost.ledger import Ledger
from preflight.cost.machine import Machine
from preflight.cost.numeric import larger
from preflight.cost.saved import in_flight
from preflight.cost.stage_time import StageTime
from preflight.cost.states import sharding_ranks
from preflight.vocabulary.run import ParallelDims, RunSpec


def offload_time(
    run: RunSpec, parallel: ParallelDims, machine: Machine, first: Ledger, last: Ledger, body: StageTime
) -> float:
    """Return what weights or activations on the host add to a step; nothing where they lie on the GPU.

    Args:
        run: What is kept on the host.
        parallel: How weights are sharded.
        machine: The rates.
        first: The ledger of the first pipeline stage.
        last: That of the last one.
        body: One micro-batch on a stage.
    """
    if run.offload == "parameters":
        return _fetched(run, parallel, machine, first, last, first.micro_batches * (body.forward + body.backward))
    if run.offload == "activations":
        return _sent(parallel, machine, first, body)
    return 0.0


def _fetched(run: RunSpec, parallel: ParallelDims, machine: Machine, first: Ledger, last: Ledger, work: float) -> float:
    """Return what fetching weights adds: every rank fetches its own part, beside the kernels as far as anything is hidden.

    ZeRO-Offload (Ren et al. 2021, arXiv 2101.06840); FSDP's CPU offload policy. The optimizer's step on the host is counted
    with the update.
    """
    ranks = sharding_ranks(parallel) if parallel.zero_stage else 1.0
    own = larger(first.share.parameters, last.share.parameters) / ranks
    passes = 3.0 if run.recompute == "full" else 2.0
    moved = first.micro_batches * passes * first.recipe.compute * own
    return larger(moved / machine.host_link - machine.coefficients.hidden * work, 0.0)


def _sent(parallel: ParallelDims, machine: Machine, first: Ledger, body: StageTime) -> float:
    """Return what sending activations away and fetching them adds, each beside the kernels of its own pass.

    Copies run on streams of their own, a block behind the forward pass and a block ahead of the backward pass (torchtune's
    ``OffloadActivations``).
    """
    away = first.activations.host / in_flight(parallel, first.share.index, first.micro_batches) / machine.host_link
    return first.micro_batches * (larger(away - body.forward, 0.0) + larger(away - body.backward, 0.0))
