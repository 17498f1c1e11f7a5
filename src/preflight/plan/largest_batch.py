"""The largest batch that fits."""

from __future__ import annotations

import msgspec

from preflight.cost.memory import max_micro_batch
from preflight.plan.changes import layout_of
from preflight.plan.request import Request
from preflight.vocabulary.plan import BatchLimit


def largest_batch(request: Request) -> BatchLimit:
    """Return the largest micro-batch of a settled request that fits by the mid value, and the global batch it makes.

    The number of micro-batches in a step stays as it is.
    """
    parallel, run = layout_of(request), request.run
    gpu = request.cluster.gpu
    ranks = parallel.dp_replicate * parallel.dp_shard
    pieces = max((run.global_batch or 0) // (max(run.micro_batch or 1, 1) * ranks), 1)
    trial = msgspec.structs.replace(run, global_batch=None, gradient_accumulation=pieces)
    micro = max_micro_batch(request.model, trial, parallel, float(gpu.memory_bytes), gpu)
    return BatchLimit(micro_batch=micro, global_batch=micro * ranks * pieces, micro_batches=pieces)
