"""Memory of one GPU over a run: the peak, its parts, the first phase that does not fit."""

from __future__ import annotations

import math

import msgspec

from preflight.cost.fragmentation import probability_below, reserved_extra
from preflight.cost.ledger import Ledger, Moment, ledger_of, moments_of
from preflight.cost.optimizers import OptimizerState, optimizer_state
from preflight.cost.parameters import ParameterCount, count_parameters
from preflight.cost.recipe import recipe_of
from preflight.cost.saved import missing_inputs
from preflight.cost.shares import adapter_parameters, share_of
from preflight.cost.states import states_of
from preflight.cost.workspace import context_bytes
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.memory import Fits, MemoryBreakdown, MemoryEstimate, Oom, TimelinePoint
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.quantity import Interval, format_bytes
from preflight.vocabulary.run import ParallelDims, RunSpec

# Relative standard deviations by part and by what is known, as benchmarks/memory_accuracy.py finds them:
# within 2 % where the stack's code is as assumed, more for adapters, whose implementations differ.
_STATES, _STATES_SCALED = 0.01, 0.03
_ACTIVATIONS = {"architecture": 0.12, "layers": 0.20}
_ADAPTERS = {"lora": 0.18, "qlora": 0.25}
_LOSS, _COMMUNICATION, _WORKSPACE = 0.12, 0.25, 0.50
_FITS_NO, _FITS_YES = 0.05, 0.80


def estimate_memory(
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    gpu: Gpu | None = None,
    capacity_bytes: int | None = None,
    stage: int | None = None,
) -> MemoryEstimate:
    """Estimate the memory of the fullest GPU over a run, from numbers alone.

    Args:
        model: The architecture.
        run: Batch, lengths, optimizer, precision, recomputation, attention.
        parallel: How it is spread.
        gpu: The device, for its capacity, context and workspaces.
        capacity_bytes: What the device offers; the GPU's total when None.
        stage: A pipeline stage to look at instead of the fullest of first and last.

    Returns:
        The estimate; its peak is None with a reason when something needed is not known.
    """
    capacity = capacity_bytes if capacity_bytes is not None else (gpu.memory_bytes if gpu else None)
    count = count_parameters(model)
    optimizer = optimizer_state(run.optimizer, run.optimizer_momentum) if run.optimizer else None
    reason = _missing(model, run, count, optimizer)
    if reason is not None or count is None or optimizer is None:
        return _unknown(model, run, parallel, count, optimizer, capacity, reason or "the model is not known")
    stages = [stage] if stage is not None else fullest_stages(parallel)
    ledgers = [ledger_of(model, run, parallel, gpu, count, optimizer, index) for index in stages]
    candidates = [(ledger, moments_of(ledger, run)) for ledger in ledgers]
    ledger, moments = max(candidates, key=lambda pair: max(moment.parts.total for moment in pair[1]))
    return _assemble(model, run, parallel, gpu, capacity, count, ledger, moments)


def fullest_stages(parallel: ParallelDims) -> list[int]:
    """Return the stages one of which is the fullest: first and last, and the second where layers are dealt unevenly."""
    uneven = parallel.first_layers is not None or parallel.last_layers is not None
    return sorted({0, parallel.pp - 1} | ({min(1, parallel.pp - 1)} if uneven else set()))


def _missing(
    model: ModelSpec, run: RunSpec, count: ParameterCount | None, optimizer: OptimizerState | None
) -> str | None:
    """Return the first thing that is not known, in words."""
    if count is None:
        return "the number of parameters is not known"
    if run.optimizer is None:
        return "the optimizer is not known"
    if optimizer is None:
        return f"what the optimizer {run.optimizer} keeps per parameter is not known"
    if run.finetune in ("lora", "qlora") and adapter_parameters(model, run) is None:
        return "the size of the adapters is not known"
    return missing_inputs(model, run)


def _unknown(
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    count: ParameterCount | None,
    optimizer: OptimizerState | None,
    capacity: int | None,
    reason: str,
) -> MemoryEstimate:
    """Return an estimate without a peak; it says ``no`` when the states alone are larger than the device."""
    if count is None:
        return MemoryEstimate(capacity_bytes=capacity, reason=reason)
    recipe = recipe_of(run, parallel)
    share = share_of(model, run, count, parallel, 0)
    states = states_of(model, run, parallel, share, recipe, optimizer or OptimizerState())
    least = states.parameters + states.gradients + states.optimizer
    how = (f"states alone: at least {format_bytes(least)} for {share.parameters:.4g} parameters",)
    if capacity is None or least <= capacity:
        return MemoryEstimate(capacity_bytes=capacity, reason=reason, how=how, least_bytes=least)
    phase = "init" if states.parameters > capacity else "optimizer"
    arithmetic = f"{format_bytes(least)} of parameters, gradients and states > {format_bytes(capacity)}"
    oom = Oom(phase=phase, step=0, arithmetic=arithmetic)  # type: ignore[arg-type]
    return MemoryEstimate(
        capacity_bytes=capacity, fits="no", p_fit=0.0, oom=oom, reason=reason, how=how, least_bytes=least
    )


def _assemble(
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    gpu: Gpu | None,
    capacity: int | None,
    count: ParameterCount,
    ledger: Ledger,
    moments: list[Moment],
) -> MemoryEstimate:
    worst = max(moments, key=lambda moment: moment.parts.total)
    allocated = _allocated_interval(run, worst.parts, ledger, count)
    reserved = _sum_interval(allocated, reserved_extra(run, allocated.mid, model.experts))
    context = context_bytes(gpu, parallel)
    device = _sum_interval(reserved, context)
    breakdown = msgspec.structs.replace(worst.parts, fragmentation=reserved.mid - allocated.mid, context=context.mid)
    timeline = _timeline(run, moments, model.experts)
    oom = _first_oom(run, timeline, context.mid, capacity, worst.parts)
    p_fit = None if capacity is None else round(probability_below(device, float(capacity)), 4)
    return MemoryEstimate(
        peak_bytes=allocated,
        reserved_bytes=reserved,
        device_bytes=device,
        capacity_bytes=capacity,
        fits=_fits(p_fit, oom),
        p_fit=p_fit,
        oom=oom,
        breakdown=breakdown,
        timeline=timeline,
        method="static",
        host_bytes=ledger.states.host + ledger.activations.host,
        how=_how(model, run, parallel, count, ledger, worst),
    )


def _allocated_interval(run: RunSpec, parts: MemoryBreakdown, ledger: Ledger, count: ParameterCount) -> Interval:
    """Return the allocated bytes with independent relative errors of the parts added in squares."""
    states = _STATES if count.exact else _STATES_SCALED
    widths = (
        (parts.model_parameters + parts.gradients + parts.optimizer_states, states),
        (parts.activations, _ADAPTERS.get(run.finetune, _ACTIVATIONS[ledger.activations.source])),
        (parts.logits_and_loss, _LOSS),
        (parts.communication_buffers, _COMMUNICATION),
        (parts.workspace, _WORKSPACE),
    )
    spread = 1.645 * math.sqrt(sum((value * width) ** 2 for value, width in widths))
    mid = parts.total
    return Interval(max(mid - spread, 0.0), mid, mid + spread)


def _sum_interval(first: Interval, second: Interval) -> Interval:
    """Return the sum of two independent quantities."""
    mid = first.mid + second.mid
    low = math.hypot(first.mid - first.low, second.mid - second.low)
    high = math.hypot(first.high - first.mid, second.high - second.mid)
    return Interval(max(mid - low, 0.0), mid, mid + high)


def _timeline(run: RunSpec, moments: list[Moment], experts: int) -> tuple[TimelinePoint, ...]:
    """Return allocated and reserved bytes of every phase; what is reserved is not given back."""
    points, held = [], 0.0
    for moment in moments:
        allocated = moment.parts.total
        held = max(held, allocated + reserved_extra(run, allocated, experts).mid)
        owners = {name: size for name in moment.parts.__struct_fields__ if (size := getattr(moment.parts, name)) > 0}
        points.append(
            TimelinePoint(
                step=moment.step, phase=moment.phase, allocated_bytes=allocated, reserved_bytes=held, owners=owners
            )
        )
    return tuple(points)


def _first_oom(
    run: RunSpec,
    timeline: tuple[TimelinePoint, ...],
    context: float,
    capacity: int | None,
    worst: MemoryBreakdown,
) -> Oom | None:
    """Return the first phase whose reserved memory and context exceed the capacity."""
    if capacity is None:
        return None
    steady = 0.0
    for point in timeline:
        need = point.reserved_bytes + context
        if point.phase != "growth":
            steady = need
            if need > capacity:
                arithmetic = (
                    f"{format_bytes(point.reserved_bytes)} reserved + {format_bytes(context)} context"
                    f" = {format_bytes(need)} > {format_bytes(capacity)}"
                )
                return Oom(phase=point.phase, step=point.step, arithmetic=arithmetic)
    growth = run.kept_bytes_per_step
    if growth <= 0:
        return None
    step = math.ceil((capacity - steady) / growth)
    if run.steps is not None and step >= run.steps:
        return None
    arithmetic = (
        f"({format_bytes(capacity)} - {format_bytes(steady)}) / {format_bytes(growth)} kept per step = {step} steps"
    )
    return Oom(phase="growth", step=step, arithmetic=arithmetic)


def _fits(p_fit: float | None, oom: Oom | None) -> Fits:
    """Return the verdict from the probability; a growth without a known end leaves it open."""
    if p_fit is None:
        return "unknown"
    if p_fit <= _FITS_NO:
        return "no"
    if oom is not None and oom.phase == "growth":
        return "unknown"
    return "yes" if p_fit >= _FITS_YES else "unknown"


def _how(
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    count: ParameterCount,
    ledger: Ledger,
    worst: Moment,
) -> tuple[str, ...]:
    """Return how each part came about, one line each."""
    recipe, share, states = ledger.recipe, ledger.share, ledger.states
    source = "as given" if model.parameters else "from the architecture"
    lines = [
        f"peak in {worst.phase} of step {worst.step}",
        f"parameters: {count.total:.6g} ({source}), {share.parameters:.6g} on this rank x {recipe.parameter:g} B"
        + (f", stage {parallel.zero_stage} over {parallel.dp_shard}" if parallel.dp_shard > 1 else ""),
        f"gradients: {share.trainable:.6g} x {recipe.gradient:g} B = {format_bytes(states.gradients)}",
        f"optimizer {run.optimizer}: {format_bytes(states.optimizer)}"
        + (f", of which an fp32 copy of {recipe.master:g} B a parameter" if recipe.master else ""),
        ledger.activations.how,
    ]
    if ledger.loss.how:
        lines.append(f"logits and loss: {ledger.loss.how}")
    if recipe.cast:
        lines.append(f"autocast keeps {format_bytes(ledger.casts)} of low-precision weight copies (in activations)")
    if run.variable_length:
        lines.append("lengths vary: the peak is at the longest sample")
    if not count.exact:
        lines.append("the split of the parameters over places is scaled or unknown")
    return tuple(lines)


def max_micro_batch(
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    capacity: float,
    gpu: Gpu | None = None,
    limit: int = 1 << 20,
) -> int:
    """Return the largest micro-batch whose device memory (mid value) is within ``capacity``; 0 when none is.

    Memory never falls as the batch grows, so bisection is exact. Unknown memory counts as not fitting.
    """

    def fits(batch: int) -> bool:
        trial = msgspec.structs.replace(run, micro_batch=batch, global_batch=None, evaluation_micro_batch=None)
        device = estimate_memory(model, trial, parallel, gpu).device_bytes
        return device is not None and device.mid <= capacity

    if not fits(1):
        return 0
    low, high = 1, 2
    while high < limit and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
