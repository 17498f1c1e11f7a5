"""The layouts of a plan: memory of a GPU over the time of a step, both logarithmic."""

from __future__ import annotations

from typing import Any

from preflight.report.parts.plan_rows import short_layout
from preflight.report.pictures.axis import Logarithmic
from preflight.vocabulary.plan import Candidate, Plan, same_layout
from preflight.vocabulary.quantity import format_bytes, format_seconds

MOST = 400
_LAYERS = {"other": 0, "front": 1, "best": 2}


def scatter(plan: Plan) -> dict[str, Any] | None:
    """Return the picture; None where there is one layout only."""
    known = [one for one in (*plan.candidates, *plan.pareto) if one.step is not None and one.memory.device_bytes]
    if plan.searched <= 1 or len(known) < 2:
        return None
    places = [_place(one) for one in known]
    times = [seconds for seconds, _ in places] + [point.step_seconds for point in plan.cloud]
    sizes = [size for _, size in places] + [point.device_bytes for point in plan.cloud]
    capacity = known[0].memory.capacity_bytes
    # The line of the capacity is drawn where it is near: far above everything it would only flatten the rest.
    near = [float(capacity)] if capacity is not None and capacity <= 2 * max(sizes) else []
    across, up = Logarithmic(times), Logarithmic([*sizes, *near], 1.12)
    points = [
        {
            "x": across.at(point.step_seconds),
            "y": round(100 - up.at(point.device_bytes), 2),
            "kind": "other",
            "title": f"{format_seconds(point.step_seconds)}, {format_bytes(point.device_bytes)}",
        }
        for point in plan.cloud
    ]
    front = {same_layout(one) for one in plan.pareto}
    best = same_layout(plan.chosen) if plan.chosen else None
    drawn = {same_layout(one): one for one in known[:MOST]}
    points += [
        _point(one, "best" if key == best else "front" if key in front else "other", across, up)
        for key, one in drawn.items()
    ]
    return {
        "points": sorted(points, key=lambda point: _LAYERS[point["kind"]]),
        "best": next((point for point in points if point["kind"] == "best"), None),
        "across": [{"at": across.at(value), "name": format_seconds(value)} for value in across.ticks()],
        "up": [{"at": round(100 - up.at(value), 2), "name": format_bytes(value)} for value in up.size_ticks()],
        "limit": round(100 - up.at(near[0]), 2) if near else None,
        "capacity": format_bytes(capacity) if capacity else "",
    }


def _place(one: Candidate) -> tuple[float, float]:
    assert one.step is not None
    assert one.memory.device_bytes is not None
    return one.step.seconds.mid, one.memory.device_bytes.mid


def _point(one: Candidate, kind: str, across: Logarithmic, up: Logarithmic) -> dict[str, Any]:
    seconds, size = _place(one)
    return {
        "x": across.at(seconds),
        "y": round(100 - up.at(size), 2),
        "kind": kind,
        "name": short_layout(one.parallel),
        "title": f"{short_layout(one.parallel)}, micro-batch {one.run.micro_batch}: "
        f"{format_seconds(seconds)}, {format_bytes(size)}",
    }
