"""What a dry run saw grow from step to step: when the GPU is full, and what the run needs in the end."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from preflight.vocabulary.fact import Fact
from preflight.vocabulary.held import Growth
from preflight.vocabulary.memory import MemoryEstimate, Oom, TimelinePoint
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.quantity import Interval, format_bytes

LONGEST = 1_000_000
"""A run whose length is not known is not expected to have more optimizer steps."""


def with_growth(
    memory: MemoryEstimate, profile: Profile, facts: Mapping[str, Fact], room: int | None
) -> MemoryEstimate:
    """Return the estimate at the end of the run, or with the step at which the GPU is full.

    Args:
        memory: The estimate from the steps that were run.
        profile: What was seen.
        facts: The number of steps, as far as reading the script tells.
        room: Bytes that PyTorch can take from the device.
    """
    for growth in _merged(profile.growth):
        if profile.full is None:
            memory = _grown(memory, growth, length_of(growth, facts), room)
    return memory


def length_of(growth: Growth, facts: Mapping[str, Fact]) -> int | None:
    """Return the number of steps or rounds over which memory grows: what the script says before what its loops show."""
    told = facts["steps"].value if growth.phase == "training" and "steps" in facts else None
    if isinstance(told, int) and not growth.emptied_at:
        return told
    return growth.length


def full_at(growth: Growth, room: int) -> int:
    """Return the step or round, from one, in which there is no room any more."""
    return growth.seen + max(0, room - growth.reserved) // growth.bytes + 1


def _merged(found: tuple[Growth, ...]) -> list[Growth]:
    """Return one growth for each phase; what ends by itself is left out."""
    merged: dict[tuple[str, str], Growth] = {}
    for growth in found:
        key = (growth.phase, growth.loop)
        if growth.bytes <= 0 or growth.bounded:
            continue
        known = merged.get(key)
        merged[key] = (
            growth
            if known is None
            else msgspec.structs.replace(
                max(known, growth, key=lambda item: item.bytes), bytes=known.bytes + growth.bytes
            )
        )
    return list(merged.values())


def _grown(memory: MemoryEstimate, growth: Growth, length: int | None, room: int | None) -> MemoryEstimate:
    unit = "step" if growth.phase == "training" else "round"
    if room is not None:
        step = full_at(growth, room)
        arithmetic = (
            f"({format_bytes(room)} - {format_bytes(growth.reserved)}) / {format_bytes(growth.bytes)} kept in every {unit}"
            f" = {step - growth.seen - 1:,} more {unit}s after {growth.seen}"
        )
        if length is None and step <= LONGEST and memory.fits == "yes":
            return msgspec.structs.replace(
                memory,
                fits="unknown",
                reason=f"memory grows by {format_bytes(growth.bytes)} in every {unit}, the GPU is full at {unit} {step:,}, "
                f"and how many there are is not known",
            )
        if length is not None and step <= length:
            said = f"{unit} {step:,} of {length:,} of the loop at {growth.loop}: " if unit == "round" else ""
            return msgspec.structs.replace(
                memory, fits="no", oom=Oom(phase="growth", step=step, arithmetic=said + arithmetic), reason=None
            )
    return _at_the_end(memory, growth, length) if length is not None else memory


def _at_the_end(memory: MemoryEstimate, growth: Growth, length: int) -> MemoryEstimate:
    """Return the estimate with the peak of the last step, where that is the highest."""
    more = growth.bytes * max(0, length - growth.seen)
    peak, device = memory.peak_bytes, memory.device_bytes
    if peak is None or device is None or growth.allocated + more <= peak.mid or memory.breakdown is None:
        return memory
    rise = growth.allocated + more - peak.mid
    point = TimelinePoint(
        step=length,
        phase="growth",
        allocated_bytes=growth.allocated + more,
        reserved_bytes=growth.reserved + more,
    )
    return msgspec.structs.replace(
        memory,
        peak_bytes=_more(peak, rise),
        reserved_bytes=_more(memory.reserved_bytes, rise) if memory.reserved_bytes is not None else None,
        device_bytes=_more(device, rise),
        breakdown=msgspec.structs.replace(memory.breakdown, activations=memory.breakdown.activations + rise),
        timeline=(*memory.timeline, point),
    )


def _more(interval: Interval, rise: float) -> Interval:
    return Interval(interval.low + rise, interval.mid + rise, interval.high + rise)


def notes_of(profile: Profile, facts: Mapping[str, Fact], room: int | None) -> list[str]:
    """Say what grows, where it is made, who keeps it, and how long there is room for it."""
    return [_note(growth, length_of(growth, facts), room) for growth in profile.growth if growth.bytes > 0]


def _note(growth: Growth, length: int | None, room: int | None) -> str:
    unit = "optimizer step" if growth.phase == "training" else f"round of the loop at {growth.loop}"
    about = "" if growth.steady else "about "
    said = f"memory grows by {about}{format_bytes(growth.bytes)} in every {unit}"
    if growth.holders and growth.holders[0].line:
        said += f": what {growth.holders[0].line} makes"
    if growth.keeper and growth.kind == "graph":
        said += f" stays in the autograd graph of {growth.keeper}"
    elif growth.keeper:
        said += f" is kept in {growth.keeper}" + (
            "" if growth.kind in ("variable", "attribute") else f" ({growth.kind})"
        )
    else:
        said += " stays alive; who keeps it was not found"
    if growth.keeper and growth.kept_at:
        said += f", by {growth.kept_at[0]}"
    if growth.bounded:
        return said + (f"; {growth.emptied_at[0]} empties it" if growth.emptied_at else "; it can hold only so much")
    if room is None:
        return said
    short = "step" if growth.phase == "training" else "round"
    step = full_at(growth, room)
    known = f"; the loop has {length:,}" if length is not None else f"; how many {short}s there are is not known"
    return f"{said}; the GPU is full at {short} {step:,}{known}"
