"""What a dry run on the virtual GPU says of memory: what was seen, with what the driver and NCCL take beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from preflight.check.dry_run import growth
from preflight.check.dry_run.end import early_end, why_unknown
from preflight.cost.workspace import COMMUNICATOR, COMMUNICATOR_SOURCE, context_bytes
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.memory import PART_OF, MemoryBreakdown, MemoryEstimate, Oom, Phase, TimelinePoint
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.quantity import Interval, format_bytes
from preflight.vocabulary.run import ParallelDims

if TYPE_CHECKING:
    from preflight.check.asked import Device

_PHASES: dict[str, Phase] = {
    "init": "init", "forward": "forward", "backward": "backward", "optimizer": "optimizer", "eval": "eval",
}  # fmt: skip


def memory_of(profile: Profile, device: Device, facts: Mapping[str, Fact]) -> MemoryEstimate:
    """The memory that was seen, and where it grows, that of the whole run."""
    return growth.with_growth(_seen(profile, device), profile, facts, room_of(device, profile.communicators))


def room_of(device: Device, communicators: int = 0) -> int | None:
    """Return the bytes that PyTorch can take from the device, beside so many communicators of NCCL."""
    if device.gpu is None or device.capacity_bytes is None:
        return None
    return device.capacity_bytes - int(context_of(device.gpu).mid) - communicators * int(COMMUNICATOR.mid)


def context_of(gpu: Gpu) -> Interval:
    """Return what the driver takes for its context: of the catalog, else of published measurements."""
    return context_bytes(gpu, ParallelDims())


def _seen(profile: Profile, device: Device) -> MemoryEstimate:
    """The memory that was seen, with the driver's context."""
    if profile.steps == 0 and profile.peak_bytes == 0:
        return MemoryEstimate(capacity_bytes=device.capacity_bytes, method="dry-run", reason=why_unknown(profile))
    assert device.gpu is not None
    # Taken by the first product of matrices; a U-Net without one took none on an H200 (benchmarks/gpu/measured.toml).
    workspace = profile.categories.get("workspace", 0)
    driver = context_of(device.gpu)
    context = driver.mid
    parts: dict[str, float] = dict.fromkeys(PART_OF.values(), 0.0)
    for category, size in profile.categories.items():
        parts[PART_OF[category]] += size
    peak, written = profile.peak_bytes, _written(profile)
    # Segments are not simulated for what a compiler writes: they are taken to be as much larger than the blocks.
    over = max(profile.reserved_bytes, peak) / max(1, peak)
    reserved = round(written.mid * over)
    parts["activations"] -= peak - written.mid
    # What NCCL takes is the least certain part: of the interval, the verdict needs the high end to fit.
    groups = profile.communicators
    context += groups * COMMUNICATOR.mid
    breakdown = MemoryBreakdown(**parts, fragmentation=max(0.0, reserved - written.mid), context=context)
    total = Interval(
        written.low * over + driver.low + groups * COMMUNICATOR.low,
        reserved + context,
        written.high * over + driver.high + groups * COMMUNICATOR.high,
    )
    complete = profile.steps > 1 and profile.outcome != "failed"
    fits = "no" if profile.full is not None else ("yes" if complete else "unknown")
    if device.capacity_bytes is not None and (
        (fits == "yes" and total.high > device.capacity_bytes) or (fits == "no" and total.low <= device.capacity_bytes)
    ):
        fits = "unknown"
    return MemoryEstimate(
        peak_bytes=written,
        reserved_bytes=Interval(written.low * over, reserved, written.high * over),
        device_bytes=total,
        capacity_bytes=device.capacity_bytes,
        fits=fits,  # type: ignore[arg-type]
        oom=_oom(profile, room_of(device, profile.communicators)),
        breakdown=breakdown,
        timeline=tuple(
            TimelinePoint(
                step=moment.step,
                phase=_PHASES[moment.phase],
                allocated_bytes=moment.allocated,
                reserved_bytes=moment.reserved,
            )
            for moment in profile.timeline
        ),
        method="dry-run",
        reason=None if fits != "unknown" else _why_unknown(profile, complete),
        how=(
            f"{profile.operators} operators of {profile.steps} steps ran on fake tensors with torch {profile.torch}",
            f"peak in {profile.peak_phase} of step {profile.peak_step}",
            f"workspace of cuBLAS {format_bytes(workspace)}{' (published)' if workspace else ': no product ran'}, context {format_bytes(driver.mid)} "
            f"({'catalog' if device.gpu.context_bytes else 'published measurements'})",
            *(() if written.low == written.high else (_compiled(written),)),
            *(() if not groups else (f"{groups} communicators of NCCL, each {COMMUNICATOR_SOURCE}",)),
        ),
    )


COMPILED_ABOVE = 0.2
"""Where a compiled run lies between what its kernels must write and what every operator by itself writes: a compiled GPT
on an H100 at 0.16 (benchmarks/gpu/measured_h100.toml)."""


def _written(profile: Profile) -> Interval:
    """Return the highest number of bytes in blocks: as it was seen, or between two bounds where the script compiles."""
    high, low = profile.peak_bytes, profile.compiled_bytes
    if not 0 < low < high:
        return _exact(high)
    return Interval(low, round(low + COMPILED_ABOVE * (high - low)), high)


def _compiled(written: Interval) -> str:
    low, high = format_bytes(written.low), format_bytes(written.high)
    return f"torch.compile: {low} where fused kernels write no result of one operator for the next, {high} operator by operator"


def _why_unknown(profile: Profile, complete: bool) -> str:
    if not complete and (end := early_end(profile)) is not None:
        return f"{end}, after {profile.steps} optimizer steps" if profile.steps else end
    if not complete:
        return "the dry run did not get through two optimizer steps"
    return "what was seen is too close to the capacity for what the driver's context and NCCL may take beside it"


def _exact(value: float) -> Interval:
    return Interval(value, value, value)


def _oom(profile: Profile, room: int | None) -> Oom | None:
    full = profile.full
    if full is None:
        return None
    where = f" in {full.module}" if full.module else ""
    return Oom(
        phase=_PHASES[full.phase],
        step=full.step,
        arithmetic=f"{full.operator}{where} ({full.line}) asks for {format_bytes(full.requested)}; "
        f"{format_bytes(full.allocated)} are in use, {format_bytes(full.reserved)} held"
        + (f", {format_bytes(max(0, room - full.reserved))} free" if room is not None else ""),
    )
