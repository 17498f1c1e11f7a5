"""Strong and weak scaling: the same layout on fewer and more GPUs, data parallelism taking what changes."""

from __future__ import annotations

import msgspec

from preflight.cost.machine import Coefficients
from preflight.errors import UsageError
from preflight.plan.changes import layout_of
from preflight.plan.evaluate import evaluate
from preflight.plan.inputs.cluster import resized
from preflight.plan.request import Request
from preflight.plan.spread import check_divides
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.plan import Scaling, ScalingPoint
from preflight.vocabulary.run import ParallelDims, RunSpec

_HALVINGS, _DOUBLINGS = 6, 4


def scaling_of(request: Request, coefficients: Coefficients | None = None) -> Scaling | None:
    """Return how throughput grows with the number of GPUs, with the global batch fixed and growing.

    Efficiency is throughput per GPU over that of the smallest number of GPUs that the layout fits on; tensor,
    pipeline and context parallel degrees stay, as does the micro-batch of the weak curve.
    """
    same, grown = (_curve(request, coefficients, weak) for weak in (False, True))
    gpus = request.cluster.num_gpus
    here = next((point for point in same if point.gpus == gpus), None)
    if here is None:
        return None
    strong, weak = _compared(same), _compared(grown)
    here = next((point for point in strong if point.gpus == gpus), here)
    first = strong[0]
    basis = (
        f"the throughput per GPU of {first.gpus} GPU{'s' if first.gpus > 1 else ''} with the same batch"
        if first.gpus != gpus
        else None
    )
    return Scaling(
        efficiency=here.efficiency if basis and here in strong else None, communication_share=here.communication_share, basis=basis,
        strong=strong, weak=weak,
    )  # fmt: skip


def _curve(request: Request, coefficients: Coefficients | None, weak: bool) -> list[ScalingPoint]:
    now, gpus = layout_of(request), request.cluster.num_gpus
    sizes = [gpus // 2**power for power in range(_HALVINGS, 0, -1) if gpus % 2**power == 0]
    sizes += [gpus * 2**power for power in range(_DOUBLINGS + 1)]
    points: list[ScalingPoint] = []
    for size in sizes:
        spread = _at(request, now, size, weak)
        if spread is None:
            continue
        parallel, run, cluster = spread
        found = evaluate(request.model, run, parallel, cluster, coefficients or request.coefficients)
        if found.step is None:
            return []
        seconds = found.step.total
        rate = (run.global_batch or 0) / seconds
        points.append(
            ScalingPoint(
                gpus=size,
                global_batch=run.global_batch or 0,
                step_seconds=seconds,
                samples_per_second=rate,
                efficiency=1.0,
                communication_share=found.step.exposed_communication / seconds,
                device_bytes=found.device,
                fits=found.device <= cluster.gpu.memory_bytes,
            )
        )
    return points


def _compared(points: list[ScalingPoint]) -> tuple[ScalingPoint, ...]:
    """Return the points from the first that fits on (all of them where none does), compared with the first."""
    fitting = next((at for at, point in enumerate(points) if point.fits), 0)
    kept = points[fitting:]
    if not kept:
        return ()
    base = kept[0].samples_per_second / kept[0].gpus
    return tuple(
        msgspec.structs.replace(point, efficiency=point.samples_per_second / point.gpus / base) for point in kept
    )


def _at(request: Request, now: ParallelDims, gpus: int, weak: bool) -> tuple[ParallelDims, RunSpec, Cluster] | None:
    """Return layout, run and cluster on so many GPUs, or None where they cannot be divided like that."""
    inner = now.tp * now.pp * now.cp
    if gpus % inner:
        return None
    data, run, was = gpus // inner, request.run, now.dp_replicate * now.dp_shard
    if now.dp_replicate > 1 and now.dp_shard > 1:
        if data % now.dp_shard:
            return None
        parallel = msgspec.structs.replace(now, dp_replicate=data // now.dp_shard)
    elif now.zero_stage:
        parallel = msgspec.structs.replace(now, dp_shard=data)
    else:
        parallel = msgspec.structs.replace(now, dp_replicate=data)
    batch = (run.global_batch or 0) * (data if weak else was) // was
    if weak and ((run.global_batch or 0) * data) % was:
        return None
    share, rest = divmod(batch, data)
    if rest or not share:
        return None
    micro = run.micro_batch or 1
    while share % micro:
        micro -= 1
    cluster = resized(request.cluster, gpus)
    changed = msgspec.structs.replace(run, global_batch=batch, micro_batch=micro)
    try:
        check_divides(msgspec.structs.replace(request, run=changed, cluster=cluster), parallel)
    except UsageError:
        return None
    return parallel, changed, cluster
