"""Changes that a plan tries on a layout: one file each, found by listing this folder.

A file offers ``options(request)``: what could be done differently, each as a request that is settled like any other, so
that its effect is computed and not assumed.
"""

from __future__ import annotations

from importlib import import_module

import msgspec

from preflight.listing import modules_beside
from preflight.plan.constraint import Layout
from preflight.plan.constraints import host_memory
from preflight.plan.request import Request
from preflight.vocabulary.run import ParallelDims, RunSpec


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Something that could be done differently.

    Attributes:
        key: A short name: ``tp``, ``recompute``.
        title: What to do, from and to: ``tensor parallel 8 -> 4``.
        side_effect: What it costs beside time and memory, or None.
        run: The changed run.
        parallel: The changed layout.
        exact: Whether the training computes the same numbers but for rounding.
    """

    key: str
    title: str
    run: RunSpec
    parallel: ParallelDims
    side_effect: str | None = None
    exact: bool = True


def changes(request: Request) -> list[Change]:
    """Return every change that applies to a settled request, in the order of the files' names."""
    found: list[Change] = []
    for name in modules_beside(__file__):
        options = import_module(f"{__name__}.{name}").options
        found += options(request)
    return [change for change in found if _host_has_room(request, change)]


def _host_has_room(request: Request, change: Change) -> bool:
    """Whether the hosts hold what a changed run offloads, or held too little before."""
    before = Layout(model=request.model, run=request.run, parallel=layout_of(request), cluster=request.cluster)
    after = msgspec.structs.replace(before, run=change.run, parallel=change.parallel)
    return change.run.offload == "none" or bool(host_memory.holds(after)) or not host_memory.holds(before)


def layout_of(request: Request) -> ParallelDims:
    """Return the layout of a settled request."""
    if request.parallel is None:
        raise ValueError("the request has no layout yet")
    return request.parallel


def rebalanced(request: Request, parallel: ParallelDims, **degrees: int) -> tuple[ParallelDims, RunSpec] | None:
    """Return the layout with other degrees, data parallelism taking what is left, and the run with a batch that divides.

    The global batch stays. None where GPUs, heads, layers, experts or the batch cannot be divided like that.
    """
    from preflight.errors import UsageError
    from preflight.plan.spread import check_divides, with_micro_batch

    run = request.run
    trial = msgspec.structs.replace(parallel, **degrees)
    inner = trial.tp * trial.pp * trial.cp
    if request.cluster.num_gpus % inner:
        return None
    data = request.cluster.num_gpus // inner
    if trial.zero_stage and trial.dp_replicate == 1:
        trial = msgspec.structs.replace(trial, dp_shard=data)
    elif trial.dp_shard == 1:
        trial = msgspec.structs.replace(trial, dp_replicate=data)
    elif data % trial.dp_shard == 0:
        trial = msgspec.structs.replace(trial, dp_replicate=data // trial.dp_shard)
    else:
        return None
    share = (run.global_batch or 0) // data
    if not share or (run.global_batch or 0) % data:
        return None
    micro = run.micro_batch if run.micro_batch and share % run.micro_batch == 0 else None
    try:
        check_divides(request, trial)
        batch = with_micro_batch(run.global_batch or 0, trial, micro)
    except UsageError:
        return None
    trial = msgspec.structs.replace(trial, sequence_parallel=trial.sequence_parallel and trial.tp > 1)
    return trial, msgspec.structs.replace(run, micro_batch=batch)
