"""A step from what a dry run saw of it: for networks whose arithmetic no formula knows, spread over data-parallel ranks."""

from __future__ import annotations

from preflight.cost.ledger import Ledger
from preflight.cost.machine import Machine
from preflight.cost.networks.spread import spread_step
from preflight.cost.numeric import larger
from preflight.cost.stage_time import StageTime
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
    kernels = seen.compute * float(run.micro_batch or 1) / seen.micro_batch
    idle = larger(seen.compute + seen.host - kernels, 0.0) if seen.host else 0.0
    body = StageTime(
        forward=kernels * (1 - _BACKWARD), backward=kernels * _BACKWARD, exposed=0.0, operators=0.0, host=idle
    )
    return spread_step(body, run, parallel, machine, ledger)
