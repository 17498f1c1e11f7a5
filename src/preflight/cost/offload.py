"""Seconds that states on the host cost: transfers over the host's link, and the optimizer's step on its processors.

ZeRO-Offload (Ren et al. 2021, arXiv 2101.06840) sends gradients down beside the backward pass, updates on the host, and
sends low-precision weights up. What is sharded is sent and updated by every rank for its own part; the GPUs of a node
share the memory of their host.
"""

from __future__ import annotations

from preflight.cost.ledger import Ledger
from preflight.cost.machine import Machine
from preflight.cost.numeric import larger, smaller
from preflight.cost.states import sharding_ranks
from preflight.vocabulary.run import ParallelDims, RunSpec

# Two sockets of eight channels of DDR4-3200 have 2 x 8 x 25.6 = 410 GB/s; reads and writes that take turns reach about
# half of it. Not calibrated: no published step names its host.
_HOST_MEMORY = 205e9
# Passes over every trainable parameter: weight and two moments are read and written in fp32, the gradient is read, the
# low-precision weight written: 3 x 8 + 4 + 2 bytes.
_UPDATE_BYTES = 30.0


def offload_time(
    run: RunSpec, parallel: ParallelDims, machine: Machine, first: Ledger, last: Ledger, work: float
) -> float:
    """Return what transfers and updates on the host add to a step.

    Args:
        run: What is kept on the host: ``optimizer`` states, or ``parameters`` with them.
        parallel: How states are sharded.
        machine: The rates.
        first: The ledger of the first pipeline stage.
        last: That of the last one.
        work: Seconds of kernels in a step, beside which weights can be sent.
    """
    if run.offload not in ("optimizer", "parameters"):
        return 0.0
    ranks = sharding_ranks(parallel) if parallel.zero_stage else 1.0
    own = larger(first.share.trainable, last.share.trainable) / ranks
    together = smaller(parallel.world_size, machine.gpus_per_node)
    update = _UPDATE_BYTES * own * together / _HOST_MEMORY
    recipe, micro_batches = first.recipe, first.micro_batches
    down, up = recipe.gradient * own, recipe.compute * own
    hidden = machine.coefficients.hidden * work
    if run.offload == "optimizer":
        return (
            larger(down / machine.host_link - hidden / larger(micro_batches, 1), 0.0) + update + up / machine.host_link
        )
    # Weights are fetched for every pass of every micro-batch, gradients sent down after each.
    passes = 3.0 if run.recompute == "full" else 2.0
    moved = micro_batches * (
        passes * recipe.compute * larger(first.share.parameters, last.share.parameters) / ranks + down
    )
    return larger(moved / machine.host_link - hidden, 0.0) + update
