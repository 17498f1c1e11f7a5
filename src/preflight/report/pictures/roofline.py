"""The operators of a step beneath the roofs of a GPU: arithmetic over bytes moved, both logarithmic."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from preflight.report.parts.clean import clean, one_line
from preflight.report.pictures.axis import NARROW, Logarithmic
from preflight.vocabulary.quantity import format_seconds
from preflight.vocabulary.roofline import Roofline, RoofPoint

NUMBERED = 9
"""The operators that take longest are numbered in the picture, and told in the table beside it."""
HEIGHT = 320
"""Pixels."""
_NUMBER = 15.0
_SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}


def roofline_picture(roof: Roofline) -> dict[str, Any] | None:
    """Return the picture; None where no operator has arithmetic, bytes and time."""
    points = _alike([one for one in roof.points if one.flop > 0 and one.bytes > 0 and one.seconds > 0])
    if not points or not roof.peaks or roof.bandwidth <= 0:
        return None
    top = max(roof.peaks.values())
    ridge = top / roof.bandwidth
    across = Logarithmic([*(one.flop / one.bytes for one in points), ridge / 8, ridge * 2], 1.5)
    up = Logarithmic([*(one.flop / one.seconds for one in points), top / 8, top], 1.6)
    total = sum(one.seconds for one in points) + roof.left_out_seconds + roof.moving_seconds
    numbered = [_point(number, one, roof, across, up, total) for number, one in enumerate(points, 1)]
    _without_overlap(numbered)
    phases = dict.fromkeys(one.phase for one in points)
    return {
        "gpu": one_line(roof.gpu),
        "basis": f"{one_line(roof.basis[:1].upper() + roof.basis[1:])}." if roof.basis else "",
        "points": numbered[::-1],
        "rows": numbered[:NUMBERED],
        "more": len(points) - NUMBERED if len(points) > NUMBERED else 0,
        "moving": f"{100 * roof.moving_seconds / total:.0f} %" if roof.moving_seconds else "",
        "phases": [clean(phase) for phase in phases],
        "roofs": [_roof(dtype, peak, roof.bandwidth, across, up) for dtype, peak in sorted(roof.peaks.items())],
        "slope": _slope(roof.bandwidth, top, across, up),
        "across": [{"at": across.at(value), "name": f"{value:,.4g}"} for value in across.ticks()],
        "up": [{"at": 100 - up.at(value), "name": _rate(value)} for value in up.ticks()],
    }


def _alike(points: list[RoofPoint]) -> list[RoofPoint]:
    """Return operators of one name and phase that lie at one place as one, those that take longest first."""
    found: dict[tuple[Any, ...], RoofPoint] = {}
    for one in points:
        place = (round(25 * math.log(one.flop / one.bytes)), round(25 * math.log(one.flop / one.seconds)))
        key = (one.operator, one.phase, one.dtype, *place)
        before = found.get(key)
        found[key] = one if before is None else _together(before, one)
    return sorted(found.values(), key=lambda one: (-one.seconds, one.operator, one.phase))


def _together(one: RoofPoint, other: RoofPoint) -> RoofPoint:
    sizes = dict.fromkeys([*one.size.split(", "), other.size])
    return msgspec.structs.replace(
        one,
        size=", ".join(size for size in sizes if size),
        calls=one.calls + other.calls,
        flop=one.flop + other.flop,
        bytes=one.bytes + other.bytes,
        seconds=one.seconds + other.seconds,
    )


def _without_overlap(points: list[dict[str, Any]]) -> None:
    """Leave out the numbers that would lie on another one; the table still has them."""
    told: list[dict[str, Any]] = []
    for one in points:
        near = any(
            abs(one["x"] - other["x"]) * NARROW / 100 < _NUMBER and abs(one["y"] - other["y"]) * HEIGHT / 100 < _NUMBER
            for other in told
        )
        one["written"] = bool(one["number"]) and not near
        if one["written"]:
            told.append(one)


def bound(point: RoofPoint, roof: Roofline) -> str:
    """Return which of the two roofs is above an operator."""
    peak = roof.peaks.get(point.dtype, max(roof.peaks.values()))
    return "memory" if point.flop / point.bytes < peak / roof.bandwidth else "arithmetic"


def _point(
    number: int, one: RoofPoint, roof: Roofline, across: Logarithmic, up: Logarithmic, total: float
) -> dict[str, Any]:
    intensity, rate, share = one.flop / one.bytes, one.flop / one.seconds, one.seconds / total
    peak = roof.peaks.get(one.dtype, max(roof.peaks.values()))
    attainable = min(peak, intensity * roof.bandwidth)
    name = one_line(f"{one.operator.strip('_')} {one.size}".strip())
    return {
        "number": str(number) if number <= NUMBERED else "",
        "x": across.at(intensity),
        "y": round(100 - up.at(rate), 2),
        "radius": round(max(9.0 if number <= NUMBERED else 3.0, 22.0 * math.sqrt(share)), 1),
        "phase": clean(one.phase),
        "name": name,
        "intensity": f"{intensity:,.0f}" if intensity >= 100 else f"{intensity:.3g}",
        "rate": _rate(rate),
        "reached": f"{100 * rate / attainable:.0f} %",
        "bound": bound(one, roof),
        "time": format_seconds(one.seconds),
        "share": f"{100 * share:.1f} %",
        "title": f"{name}, {clean(one.phase)}: {intensity:,.0f} FLOP/byte, {_rate(rate)}, {format_seconds(one.seconds)} "
        f"({100 * share:.1f} % of the kernels), beneath the roof of {bound(one, roof)}",
    }


def _roof(dtype: str, peak: float, bandwidth: float, across: Logarithmic, up: Logarithmic) -> dict[str, Any]:
    """Return the flat roof of a type, from where the slope of the memory meets it."""
    start = across.at(max(peak / bandwidth, across.low))
    return {"x": start, "y": round(100 - up.at(peak), 2), "name": f"{_SHORT.get(dtype, dtype)}: {_rate(peak)}"}


def _slope(bandwidth: float, top: float, across: Logarithmic, up: Logarithmic) -> dict[str, Any]:
    """Return the roof of the memory, from where it enters the drawing to the highest flat roof."""
    low = max(across.low, up.low / bandwidth)
    return {
        "x1": across.at(low), "y1": round(100 - up.at(low * bandwidth), 2),
        "x2": across.at(top / bandwidth), "y2": round(100 - up.at(top), 2),
        "name": f"memory: {bandwidth / 1e9:,.0f} GB/s",
    }  # fmt: skip


def _rate(value: float) -> str:
    """Return FLOP per second in a unit of which there are some."""
    for size, unit in ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")):
        if value >= size:
            return f"{value / size:,.3g} {unit}"
    return f"{value:,.3g} FLOP/s"
