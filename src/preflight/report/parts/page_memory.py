"""The memory of a report as the page draws it: sizes, and positions in percent of the width."""

from __future__ import annotations

from typing import Any

from preflight.report.parts.clean import one_line
from preflight.report.parts.memory_text import METHODS, shortened
from preflight.report.parts.sentences import capacity, interval, oom_line, part_name
from preflight.report.pictures.timeline import timeline
from preflight.report.pictures.treemap import treemap
from preflight.vocabulary.memory import TOTALS, MemoryBreakdown, MemoryEstimate
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.quantity import format_bytes

_TONES = {"yes": "good", "no": "bad", "unknown": ""}
_HEADROOM = 1.02
"""The longest bar leaves two percent of the width free, so that a line at its end is still seen."""
_TIMELINE_ROWS = 24


def bar(
    value: float, full: float, *, reserved: float | None = None, limit: float | None = None
) -> dict[str, float | None]:
    """Return a bar in percent of ``full``; ``limit`` is where the line of the capacity stands."""
    return {
        "share": _percent(value, full),
        "reserved": None if reserved is None else _percent(reserved, full),
        "limit": None if limit is None else _percent(limit, full),
    }


def _percent(value: float, full: float) -> float:
    return round(min(max(value / full * 100.0, 0.0), 100.0), 2) if full > 0 else 0.0


def memory_view(memory: MemoryEstimate, profile: Profile | None = None) -> dict[str, Any]:
    """Return everything that the page shows of the memory of one GPU."""
    rows = [(name, getattr(memory, field)) for field, name in TOTALS.items()]
    limit = memory.capacity_bytes
    shown: dict[str, Any] = {
        "method": METHODS[memory.method] + (f", of {one_line(memory.assumed)}" if memory.assumed else "")
        if memory.peak_bytes is not None
        else None,
        "unknown": None if memory.peak_bytes is not None else one_line(memory.reason or "no reason was given"),
        "oom": oom_line(memory.oom) if memory.oom is not None else None,
        "arithmetic": one_line(memory.oom.arithmetic or "") if memory.oom is not None else None,
        "totals": [
            {"name": name, "size": format_bytes(value.mid), "interval": interval(value)}
            for name, value in rows
            if value is not None
        ],
        "capacity": None if limit is None else format_bytes(limit),
        "fits": capacity(memory),
        "tone": _TONES[memory.fits],
        "parts": [],
        "limit": None,
        "line": timeline(memory, profile),
        "treemap": treemap(memory, profile),
        "how": [one_line(line) for line in memory.how],
    }
    if memory.breakdown is not None and memory.breakdown.total > 0:
        shown |= _breakdown(memory.breakdown, limit)
    return shown | _timeline(memory)


def _breakdown(parts: MemoryBreakdown, limit: int | None) -> dict[str, Any]:
    """Return the parts twice: in their fixed order for the stacked bar, the largest first for the table."""
    full = max(parts.total, limit or 0) * _HEADROOM
    sizes = [(field, getattr(parts, field)) for field in parts.__struct_fields__]
    drawn, start = [], 0.0
    for field, size in sizes:
        if size <= 0:
            continue
        drawn.append(
            {
                "field": field,
                "name": part_name(field),
                "size": format_bytes(size),
                "percent": f"{size / parts.total * 100:.0f}",
                "bytes": size,
                "start": _percent(start, full),
                "extent": _percent(size, full),
                "bar": bar(size, parts.total),
            }
        )
        start += size
    return {
        "total": format_bytes(parts.total),
        "limit": None if limit is None else _percent(limit, full),
        "parts_in_order": drawn,
        "parts": sorted(drawn, key=lambda part: -part["bytes"]),
    }


def _timeline(memory: MemoryEstimate) -> dict[str, Any]:
    points = shortened(memory.timeline, _TIMELINE_ROWS)
    limit = memory.capacity_bytes
    rows = [
        {
            "name": f"step {point.step}, {point.phase}",
            "allocated": format_bytes(point.allocated_bytes),
            "reserved": format_bytes(point.reserved_bytes),
            "above": limit is not None and point.allocated_bytes > limit,
        }
        for point in points
    ]
    return {"timeline": rows, "left_out": len(memory.timeline) - len(points)}
