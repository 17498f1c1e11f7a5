"""What changes would save, each computed again with the same formulas."""

from __future__ import annotations

import msgspec

from preflight.cost.machine import half_of
from preflight.cost.memory import estimate_memory
from preflight.cost.optimizers import optimizer_state
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.memory import Fits, MemoryEstimate
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a run.

    Attributes:
        change: What to do, in words.
        key: A short name of it.
        peak_bytes: Allocated peak with the change (mid value).
        device_bytes: What the device needs with the change (mid value).
        fits: Whether it fits the capacity.
        side_effect: What it costs.
        run: The changed run. parallel: The changed layout.
    """

    change: str
    key: str
    peak_bytes: float
    device_bytes: float
    fits: Fits
    side_effect: str
    run: RunSpec
    parallel: ParallelDims


def alternatives(
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    gpu: Gpu | None = None,
    capacity_bytes: int | None = None,
) -> list[Alternative]:
    """Return changes that lower the peak, the largest saving first; empty when the memory is not known."""
    now = estimate_memory(model, run, parallel, gpu, capacity_bytes)
    if now.peak_bytes is None or now.device_bytes is None:
        return []
    found = []
    for key, change, cost, new_run, new_parallel in _changes(model, run, parallel, half_of(gpu)):
        then = estimate_memory(model, new_run, new_parallel, gpu, capacity_bytes)
        if then.peak_bytes is None or then.device_bytes is None or not _lowers(now, then):
            continue
        found.append(
            Alternative(
                change=change,
                key=key,
                peak_bytes=then.peak_bytes.mid,
                device_bytes=then.device_bytes.mid,
                fits=then.fits,
                side_effect=cost,
                run=new_run,
                parallel=new_parallel,
            )
        )
    return sorted(found, key=lambda alternative: alternative.device_bytes)


def _lowers(now: MemoryEstimate, then: MemoryEstimate) -> bool:
    """Return whether a change saves at least one per cent."""
    return bool(now.device_bytes and then.device_bytes and then.device_bytes.mid < 0.99 * now.device_bytes.mid)


def _changes(
    model: ModelSpec, run: RunSpec, parallel: ParallelDims, half: str
) -> list[tuple[str, str, str, RunSpec, ParallelDims]]:
    """Return (key, change, side effect, run, parallel) of every change that applies, on a GPU of that type of 16 bits."""
    replace = msgspec.structs.replace
    changes: list[tuple[str, str, str, RunSpec, ParallelDims]] = []

    def add(key: str, change: str, cost: str, new_run: RunSpec, new_parallel: ParallelDims = parallel) -> None:
        changes.append((key, change, cost, new_run, new_parallel))

    batch = run.micro_batch or 0
    if batch >= 2:
        # An odd batch has no half: it is divided by the least number that leaves the samples of a step the same.
        parts = next(n for n in range(2, batch + 1) if batch % n == 0)
        less, steps = batch // parts, run.gradient_accumulation * parts
        divided = replace(run, micro_batch=less, gradient_accumulation=steps)
        add("half-batch", f"micro-batch {batch} -> {less} and accumulate over {steps}", "smaller matrices", divided)
    if run.recompute == "none" and model.layers:
        full = replace(run, recompute="full")
        add("checkpointing", "activation checkpointing of every block", "one more forward pass: about 30 % time", full)
    if run.precision in ("fp32", "tf32"):
        cost = "lower precision in matrix products" + ("; needs a GradScaler" if half == "fp16" else "")
        add("autocast", f"{half} autocast", cost, replace(run, precision=f"autocast-{half}"))
    if run.attention in ("eager", "math") and model.heads:
        add("flash", "flash attention (SDPA)", "none", replace(run, attention="flash"))
    state = optimizer_state(run.optimizer or "", run.optimizer_momentum)
    if state is not None and state.full >= 2 and not state.paged:
        add("8bit-optimizer", "8-bit optimizer states", "quantised moments", replace(run, optimizer="adamw8bit"))
    if run.cross_entropy == "eager" and model.vocab and model.vocab > 8192:
        add("fused-loss", "fused linear cross entropy", "another kernel", replace(run, cross_entropy="fused"))
    ranks = parallel.dp_replicate
    if ranks > 1 and parallel.dp_shard == 1:
        sharded = replace(parallel, dp_replicate=1, dp_shard=ranks, zero_stage=3, framework="fsdp2")
        add("shard", f"shard the states over {ranks} GPUs (FSDP)", "gathers weights for every pass", run, sharded)
    elif parallel.world_size == 1:
        for gpus in (2, 4, 8):
            sharded = replace(parallel, dp_shard=gpus, zero_stage=3, framework="fsdp2")
            add(f"shard-{gpus}", f"shard the states over {gpus} GPUs (FSDP)", f"{gpus} GPUs", run, sharded)
    return changes
