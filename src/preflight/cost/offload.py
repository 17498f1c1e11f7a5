"""Seconds that weights on the host cost: they are fetched over the host's link for every pass of every micro-batch."""

from __future__ import annotations

from preflight.cost.ledger import Ledger
from preflight.cost.machine import Machine
from preflight.cost.numeric import larger
from preflight.cost.states import sharding_ranks
from preflight.vocabulary.run import ParallelDims, RunSpec


def fetch_time(
    run: RunSpec, parallel: ParallelDims, machine: Machine, first: Ledger, last: Ledger, work: float
) -> float:
    """Return what fetching weights from the host adds to a step; nothing where they lie on the GPU.

    Every rank fetches its own part, beside the kernels as far as anything is hidden there (ZeRO-Offload, Ren et al. 2021,
    arXiv 2101.06840; FSDP's CPU offload policy). The optimizer's step on the host is counted with the update.

    Args:
        run: What is kept on the host.
        parallel: How weights are sharded.
        machine: The rates.
        first: The ledger of the first pipeline stage.
        last: That of the last one.
        work: Seconds of kernels in a step.
    """
    if run.offload != "parameters":
        return 0.0
    ranks = sharding_ranks(parallel) if parallel.zero_stage else 1.0
    own = larger(first.share.parameters, last.share.parameters) / ranks
    passes = 3.0 if run.recompute == "full" else 2.0
    moved = first.micro_batches * passes * first.recipe.compute * own
    return larger(moved / machine.host_link - machine.coefficients.hidden * work, 0.0)
