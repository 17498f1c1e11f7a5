"""Rows of a plan that several formats show: the layout, the run's length and price, candidates, stages, effects."""

from __future__ import annotations

from preflight.report.parts.clean import one_line
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.plan import AttentionMemory, Bottleneck, Candidate, Plan, ScalingPoint, Sensitivity
from preflight.vocabulary.quantity import (
    GIB,
    Interval,
    format_bytes,
    format_count,
    format_duration,
    format_seconds,
    in_unit,
    long_unit,
)
from preflight.vocabulary.run import ParallelDims, RunSpec, recompute_setting

_ZERO = {1: "optimizer states sharded", 2: "optimizer states and gradients sharded", 3: "fully sharded"}
_AXES = (("tp", "tensor"), ("pp", "pipeline"), ("cp", "context"), ("ep", "expert"))


def layout_words(parallel: ParallelDims) -> str:
    """Return a layout as people say it: ``tensor 8, pipeline 4 (2 virtual stages), data 2 (optimizer states sharded)``."""
    parts = []
    for field, name in _AXES:
        degree = getattr(parallel, field)
        if degree > 1:
            virtual = f" ({parallel.vp} virtual stages)" if field == "pp" and parallel.vp > 1 else ""
            parts.append(f"{name} {degree}{virtual}")
    data = parallel.dp_replicate * parallel.dp_shard
    if data > 1:
        how = _ZERO.get(parallel.zero_stage, "")
        if parallel.dp_shard > 1 and parallel.dp_replicate > 1:
            how += f" in groups of {parallel.dp_shard}"
        parts.append(f"data {data}" + (f" ({how})" if how else ""))
    return ", ".join(parts) or "one GPU"


def short_layout(parallel: ParallelDims) -> str:
    """Return a layout for a table: ``tp 8 pp 4 dp 2 zero 1``."""
    parts = [f"{field} {getattr(parallel, field)}" for field, _ in _AXES if getattr(parallel, field) > 1]
    if parallel.vp > 1:
        parts.append(f"vp {parallel.vp}")
    if parallel.dp_replicate > 1:
        parts.append(f"dp {parallel.dp_replicate}")
    if parallel.dp_shard > 1:
        parts.append(f"shard {parallel.dp_shard}" + (f" zero {parallel.zero_stage}" if parallel.zero_stage < 3 else ""))
    return " ".join(parts) or "one GPU"


def run_words(run: RunSpec, model: ModelSpec | None = None) -> str:
    """Return batch, length and what else decides memory and time; of a model without heads no kind of attention."""
    parts = [f"micro-batch {run.micro_batch}", f"{run.global_batch} samples a step"]
    if run.sequence_length:
        parts.append(f"{run.sequence_length} tokens each")
    parts += [run.precision, run.optimizer or "no optimizer"]
    if model is None or model.family not in ("cnn", "mlp", "rnn"):
        parts.append(f"{run.attention} attention")
    if run.recompute != "none":
        of = f" of {run.recompute_layers} blocks" if run.recompute_layers is not None else ""
        parts.append(f"{run.recompute} recomputation{of}")
    if run.finetune != "full":
        parts.append(run.finetune)
    if run.cross_entropy != "eager":
        parts.append(f"{run.cross_entropy} cross entropy")
    if run.offload != "none":
        parts.append(f"{run.offload} offloaded")
    if run.stack != "eager":
        parts.append(f"{run.stack} stack")
    return ", ".join(parts)


def _dollars(value: float) -> str:
    return f"${value:,.0f}" if value >= 10 else f"${value:,.2f}"


def _spans(value: Interval) -> str:
    """Return an interval of times in the unit of its middle."""
    unit = long_unit(value.mid)
    low, mid, high = (
        in_unit(end, *unit) if unit else format_duration(end) for end in (value.low, value.mid, value.high)
    )
    return f"{mid} ({low.partition(' ')[0] if unit else low} to {high})"


def run_rows(plan: Plan) -> list[tuple[str, str]]:
    """Return (name, value) of the whole run: steps, duration, cost, energy, goodput, the largest batch."""
    rows: list[tuple[str, str]] = []
    length, cost, good = plan.duration, plan.cost, plan.goodput
    if length is not None and length.steps is not None:
        tokens = f", {format_count(length.tokens)} tokens" if length.tokens else ""
        why = f" ({one_line(length.reason)})" if length.reason and length.seconds is not None else ""
        rows.append(("length", f"{length.steps:,} steps{tokens}{why}"))
    if length is not None:
        known = _spans(length.seconds) if length.seconds else f"not known: {one_line(length.reason or '')}"
        rows.append(("duration", known))
    if cost is not None and cost.gpu_hours is not None:
        rows.append(("GPU-hours", f"{cost.gpu_hours:,.0f}"))
    if cost is not None and cost.usd is not None:
        low, mid, high = (_dollars(value) for value in (cost.usd.low, cost.usd.mid, cost.usd.high))
        rows.append(("money", f"{mid} ({low} to {high}), on demand, prices of {cost.price_date}"))
    if cost is not None and cost.kwh is not None:
        rows.append(("energy", f"{cost.kwh:,.0f} kWh of the boards at full power"))
    if good is not None:
        told = f"{good.share:.1%} of the time trains; a checkpoint every {format_duration(good.checkpoint_interval_seconds)}"
        if good.best_interval_seconds not in (None, good.checkpoint_interval_seconds):
            told += f" (best: {format_duration(good.best_interval_seconds or 0.0)})"
        rows.append(("goodput", told.replace("%", " %", 1)))
    if plan.scaling is not None and plan.scaling.efficiency is not None:
        basis = f" of {one_line(plan.scaling.basis)}" if plan.scaling.basis else ""
        rows.append(("scaling", f"{plan.scaling.efficiency:.0%}".replace("%", " %") + basis))
    if plan.largest_batch is not None:
        limit = plan.largest_batch
        told = f"{limit.global_batch} samples a step (micro-batch {limit.micro_batch}, {limit.micro_batches} of them)"
        rows.append(("largest batch", told if limit.micro_batch else "not even one sample fits"))
    return rows


def attention_words(said: AttentionMemory) -> str:
    """Return what the matrix of scores costs: ``flash keeps 65.0 GiB per GPU; written out it would be 120 GiB``."""
    flash, written = format_bytes(said.flash_bytes), format_bytes(said.written_bytes)
    times = (
        f", {said.written_bytes / said.flash_bytes:.1f} times" if said.written_bytes > 1.05 * said.flash_bytes else ""
    )
    if said.kind in ("eager", "math"):
        return f"scores are written out: {written} per GPU; flash attention would take {flash}"
    return f"{said.kind}: {flash} per GPU; with the scores written out it would be {written}{times}"


def rate_rows(plan: Plan) -> list[tuple[str, str, str]]:
    """Return (name, rates, what a step moves) of GPU and links."""
    rows = []
    for rate in plan.rates:
        scale, unit = (1e12, "TFLOP/s") if rate.unit == "FLOP/s" else (1e9, "GB/s")
        told = f"{rate.used / scale:,.4g} of {rate.promised / scale:,.4g} {unit}"
        moved = ", ".join(f"{axis} {format_bytes(size)}" for axis, size in rate.moved_bytes.items())
        rows.append((one_line(rate.name), told, f"{moved} a step" if moved else ""))
    return rows


CANDIDATE_TITLES = ("layout", "micro", "recompute", "step", "tokens/s/GPU", "MFU", "memory", "fits")


def candidate_rows(candidates: tuple[Candidate, ...]) -> list[tuple[str, ...]]:
    """Return one row for each candidate, under ``CANDIDATE_TITLES``."""
    rows: list[tuple[str, ...]] = []
    for candidate in candidates:
        step, memory = candidate.step, candidate.memory
        rate = step.tokens_per_second_per_gpu if step else None
        rows.append(
            (
                short_layout(candidate.parallel),
                str(candidate.run.micro_batch),
                recompute_setting(candidate.run),
                format_seconds(step.seconds.mid) if step else "-",
                f"{rate:,.0f}" if rate else "-",
                f"{step.mfu * 100:.0f} %" if step and step.mfu else "-",
                format_bytes(memory.device_bytes.mid) if memory.device_bytes else "-",
                {"yes": "yes", "no": "no", "unknown": "perhaps"}[memory.fits],
            )
        )
    return rows


STAGE_TITLES = ("stage", "layers", "in flight", "allocated", "device")


def stage_rows(candidate: Candidate) -> list[tuple[str, ...]]:
    """Return one row for each pipeline stage, under ``STAGE_TITLES``."""
    return [
        (
            str(stage.stage), f"{stage.layers:g}", f"{stage.in_flight:g}", format_bytes(stage.allocated_bytes),
            format_bytes(stage.device_bytes),
        )
        for stage in candidate.stages
    ]  # fmt: skip


SCALING_TITLES = ("GPUs", "batch", "step", "samples/s", "efficiency", "communication", "memory", "fits")


def scaling_rows(points: tuple[ScalingPoint, ...]) -> list[tuple[str, ...]]:
    """Return one row for each number of GPUs, under ``SCALING_TITLES``."""
    return [
        (
            f"{point.gpus:,}", f"{point.global_batch:,}", format_seconds(point.step_seconds), f"{point.samples_per_second:,.4g}",
            f"{point.efficiency * 100:.0f} %", f"{point.communication_share * 100:.0f} %", format_bytes(point.device_bytes),
            "yes" if point.fits else "no",
        )
        for point in points
    ]  # fmt: skip


BOTTLENECK_TITLES = {
    "time": "the time of a step", "rate": "what the step depends on", "memory": "the memory of the fullest GPU",
}  # fmt: skip


def bottleneck_groups(plan: Plan) -> list[tuple[str, list[Bottleneck]]]:
    """Return what holds the run back, group by group, under the title of each."""
    groups = ((title, [one for one in plan.bottlenecks if one.of == kind]) for kind, title in BOTTLENECK_TITLES.items())
    return [(title, found) for title, found in groups if found]


def change_words(one: Bottleneck) -> str:
    """Return the change that helps most, or that there is none; nothing for a rate."""
    if one.of == "rate":
        return ""
    return one_line(one.change) if one.change else "none of the changes that were tried makes it clearly smaller"


EFFECT_TITLES = ("time", "memory", "fits", "change")


def effect_rows(effects: tuple[Sensitivity, ...]) -> list[tuple[str, str, str, str]]:
    """Return what single changes do, under ``EFFECT_TITLES``."""
    rows = []
    for effect in effects:
        percent = None if effect.step_change is None else round(effect.step_change * 100)
        time = "-" if percent is None else f"{percent:+d} %" if percent else "same"
        memory = f"{effect.device_bytes_change / GIB:+.1f} GiB"
        fits = {"yes": "yes", "no": "no", "unknown": "perhaps"}[effect.fits]
        rows.append((time, memory, fits, one_line(effect.change)))
    return rows


COMPARED_TITLES = ("on", "layout", "fits", "memory", "step", "tokens/s", "duration", "money", "kWh")


def compared_rows(plan: Plan) -> list[tuple[str, ...]]:
    """Return one row for each cluster of a comparison, under ``COMPARED_TITLES``."""
    rows: list[tuple[str, ...]] = []
    for one in plan.compared:
        candidate, cost = one.candidate, one.cost
        step, memory = (candidate.step, candidate.memory) if candidate else (None, None)
        rate = step.tokens_per_second_per_gpu if step else None
        length = one.duration.seconds if one.duration else None
        rows.append(
            (
                one_line(one.cluster),
                short_layout(candidate.parallel) if candidate else "-",
                {"yes": "yes", "no": "no", "unknown": "perhaps"}[memory.fits] if memory else "-",
                format_bytes(memory.device_bytes.mid) if memory and memory.device_bytes else "-",
                format_seconds(step.seconds.mid) if step else "-",
                f"{rate * one.gpus:,.0f}" if rate else "-",
                format_duration(length.mid) if length else "-",
                _dollars(cost.usd.mid) if cost and cost.usd else "-",
                f"{cost.kwh:,.0f}" if cost and cost.kwh is not None else "-",
            )
        )
    return rows


def compared_reasons(plan: Plan) -> list[str]:
    """Return a sentence for each cluster on which there is no layout."""
    return [f"{one_line(one.cluster)}: {one_line(one.reason)}" for one in plan.compared if one.reason]
