"""Memory over a run: what the bytes are for, what the allocator holds, and the capacity above it all."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import msgspec

from preflight.report.parts.sentences import part_name
from preflight.report.pictures.axis import byte_ticks, percent, room
from preflight.vocabulary.memory import PART_OF, MemoryEstimate
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.quantity import format_bytes

ORDER = (
    "context", "model_parameters", "gradients", "optimizer_states", "communication_buffers", "workspace",
    "logits_and_loss", "activations", "unknown",
)  # fmt: skip
"""From the bottom up: what stays lies below what comes and goes."""
UNITS = 1000
"""Height of the drawing in units of its own; a column is ten wide."""
_HEADROOM = 1.06
_SHORT = {"forward": "fwd", "backward": "bwd", "optimizer": "opt"}
"""Names of phases as programs abbreviate them."""


class Column(msgspec.Struct, frozen=True):
    """A moment: its step and phase, bytes by what they are for, and bytes that the allocator holds."""

    step: int
    phase: str
    parts: dict[str, float]
    reserved: float

    @property
    def height(self) -> float:
        """All bytes that are in use."""
        return sum(self.parts.values())


def columns_of(memory: MemoryEstimate, profile: Profile | None) -> list[Column]:
    """Return the moments of a run: as a dry run saw them, else the highest one of each phase."""
    context = memory.breakdown.context if memory.breakdown is not None else 0.0
    base = {"context": context} if context > 0 else {}
    seen = profile.course if profile is not None and memory.method == "dry-run" else ()
    found = []
    for instant in seen:
        parts = dict(base)
        for owner, size in instant.owners.items():
            part = PART_OF.get(owner, "unknown")
            parts[part] = parts.get(part, 0.0) + size
        found.append(Column(instant.step, instant.phase, parts, instant.reserved + context))
    for point in memory.timeline:
        if seen and point.phase != "growth":
            continue
        parts = {**base, **point.owners}
        rest = point.allocated_bytes - sum(point.owners.values())
        if rest > 0.001 * point.allocated_bytes:
            parts["unknown"] = rest
        found.append(Column(point.step, point.phase, parts, point.reserved_bytes + context))
    return found


def timeline(memory: MemoryEstimate, profile: Profile | None = None) -> dict[str, Any] | None:
    """Return the picture; None where fewer than two moments are known."""
    columns = columns_of(memory, profile)
    if len(columns) < 2:
        return None
    limit = memory.capacity_bytes
    full = max(*(max(one.height, one.reserved) for one in columns), limit or 0) * _HEADROOM
    names = [part for part in ORDER if any(one.parts.get(part) for one in columns)]
    areas, below = [], [0.0] * len(columns)
    for part in names:
        below = [under + one.parts.get(part, 0.0) for under, one in zip(below, columns, strict=True)]
        areas.append({"part": part, "path": _path(below, full, closed=True)})
    top = max(columns, key=lambda one: one.height)
    return {
        "areas": areas[::-1],
        "reserved": _path([one.reserved for one in columns], full, closed=False),
        "width": 10 * len(columns),
        "height": UNITS,
        "columns": [_column(at, one, len(columns)) for at, one in enumerate(columns)],
        "legend": [{"part": part, "name": _name(part)} for part in names],
        "ticks": byte_ticks(full),
        "limit": None if limit is None else percent(limit, full),
        "capacity": "" if limit is None else format_bytes(limit),
        "peak": {"at": percent(columns.index(top) + 0.5, len(columns)), "height": percent(top.height, full)},
        "told": f"highest in {top.phase} of step {top.step:,}: {format_bytes(top.height)}",
        "phases": _runs(columns, lambda one: (one.step, one.phase), lambda one: one.phase),
        "steps": _runs(columns, lambda one: (one.step,), lambda one: f"step {one.step:,}"),
        "fine": any(one.phase != "growth" for one in columns) and len(columns) > len(memory.timeline),
    }


def _name(part: str) -> str:
    return "not known" if part == "unknown" else part_name(part)


def _path(heights: list[float], full: float, *, closed: bool) -> str:
    """Return the outline of columns, ten wide each, in units of the drawing."""
    at = [UNITS - round(UNITS * height / full) for height in heights]
    path, before = [f"M0 {at[0]}"], at[0]
    run = 0
    for here in at:
        if here != before:
            path.append(f"h{run}v{here - before}")
            run, before = 0, here
        run += 10
    path.append(f"h{run}")
    return "".join(path) + (f"V{UNITS}H0z" if closed else "")


def _column(at: int, one: Column, number: int) -> dict[str, Any]:
    parts = ", ".join(f"{_name(part)} {format_bytes(one.parts[part])}" for part in ORDER if one.parts.get(part))
    told = f"step {one.step:,}, {one.phase}: {format_bytes(one.height)} in use ({parts}), {format_bytes(one.reserved)} taken"
    return {"x": percent(at, number), "width": round(100 / number, 3), "title": told}


def _runs(columns: list[Column], key: Any, name: Any) -> list[dict[str, Any]]:
    """Return neighbouring columns of one kind together: where they begin, how wide they are, their name, and where it fits.

    Where the name does not fit what is usually written for it stands in its place: on narrow pages, or on all.
    """
    found, at = [], 0
    for _, group in groupby(columns, key):
        members = list(group)
        whole, share = name(members[0]), 100 * len(members) / len(columns)
        label, place, short = whole, room(whole, share), _SHORT.get(whole)
        if place is None and short is not None:
            label, place = short, room(short, share)
        narrow = (
            short if place == "wide" and label != short and short is not None and room(short, share) == "" else None
        )
        found.append({
            "x": percent(at, len(columns)), "width": round(share, 2), "name": whole, "label": label, "room": place,
            "narrow": narrow,
        })  # fmt: skip
        at += len(members)
    return found
