"""The least number of GPUs that a run fits on when its states are sharded over all of them."""

from __future__ import annotations

import msgspec

from preflight.cost.machine import Coefficients
from preflight.errors import UsageError
from preflight.plan.candidate import candidate
from preflight.plan.inputs.cluster import resized
from preflight.plan.request import Request, Wish
from preflight.plan.spread import settled
from preflight.vocabulary.quantity import format_bytes
from preflight.vocabulary.report import Recommendation
from preflight.vocabulary.run import ParallelDims, Recompute

_MOST = 4096


def more_gpus(request: Request, coefficients: Coefficients | None = None) -> Recommendation | None:
    """Return the smallest cluster of the same GPUs that holds the run, fully sharded, one sample at a time.

    Without recomputation first, then with it: whichever needs fewer GPUs is said, the quicker of two equals.
    """
    gpus = request.cluster.num_gpus * 2
    while gpus <= _MOST:
        kinds: tuple[Recompute, ...] = (request.run.recompute, "full")
        for recompute in kinds:
            wider = _on(request, gpus, recompute)
            if wider is None or wider.parallel is None:
                continue
            found = candidate(wider, wider.parallel, wider.run, coefficients)
            if found.memory.fits == "yes" and found.memory.device_bytes is not None:
                again = ", every block recomputed" if recompute != request.run.recompute else ""
                return Recommendation(
                    priority="critical",
                    change=f"{gpus} GPUs, fully sharded (FSDP){_beside(wider.parallel)}, micro-batch 1{again}",
                    effect=f"{format_bytes(found.memory.device_bytes.mid)} per GPU (fits)",
                    side_effect=f"{gpus / request.cluster.num_gpus:g} times the GPUs",
                )
        gpus *= 2
    return None


def _beside(parallel: ParallelDims) -> str:
    return f" with tensor parallel {parallel.tp}" if parallel.tp > 1 else ""


def _on(request: Request, gpus: int, recompute: Recompute) -> Request | None:
    """Return the request on so many GPUs, or None where its batch cannot be divided over them."""
    cluster = resized(request.cluster, gpus)
    run = msgspec.structs.replace(request.run, micro_batch=1, recompute=recompute)
    batch, tensor = request.run.global_batch or 1, 1
    while batch % max(gpus // tensor, 1) and tensor < cluster.gpus_per_node:
        tensor *= 2  # fewer samples than GPUs: some GPUs share a sample
    wish = Wish(strategy="fsdp", tensor_parallel=tensor if tensor > 1 else None)
    try:
        return settled(msgspec.structs.replace(request, cluster=cluster, run=run, wish=wish))
    except UsageError:
        return None
