"""The layouts of a plan: memory of a GPU over time, both logarithmic.

The time is that of a step. Where no batch was given, layouts take different ones in a step; what a sample takes is then the
time that tells them apart.
"""

from __future__ import annotations

from typing import Any

from preflight.report.parts.plan_rows import run_words, short_layout
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
    batches = {_batch(one) for one in known} | {point.global_batch for point in plan.cloud}
    per_sample = len(batches) > 1
    places = [_place(one, per_sample) for one in known]
    cloud = [point.step_seconds / (point.global_batch if per_sample else 1) for point in plan.cloud]
    times = [seconds for seconds, _ in places] + cloud
    sizes = [size for _, size in places] + [point.device_bytes for point in plan.cloud]
    capacity = known[0].memory.capacity_bytes
    # The line of the capacity is drawn where it is near: far above everything it would only flatten the rest.
    near = [float(capacity)] if capacity is not None and capacity <= 2 * max(sizes) else []
    across, up = Logarithmic(times), Logarithmic([*sizes, *near], 1.12)
    points = [
        {
            "x": across.at(seconds),
            "y": round(100 - up.at(point.device_bytes), 2),
            "kind": "other",
            "title": f"{format_seconds(seconds)}, {format_bytes(point.device_bytes)}",
        }
        for point, seconds in zip(plan.cloud, cloud, strict=True)
    ]
    front = {same_layout(one) for one in plan.pareto}
    best = same_layout(plan.chosen) if plan.chosen else None
    drawn = {same_layout(one): one for one in known[:MOST]}
    points += [
        _point(
            one, _place(one, per_sample), "best" if key == best else "front" if key in front else "other", across, up
        )
        for key, one in drawn.items()
    ]
    return {
        "time": "time for a sample" if per_sample else "time of a step",
        "points": sorted(points, key=lambda point: _LAYERS[point["kind"]]),
        "best": next((point for point in points if point["kind"] == "best"), None),
        "across": [{"at": across.at(value), "name": format_seconds(value)} for value in across.ticks()],
        "up": [{"at": round(100 - up.at(value), 2), "name": format_bytes(value)} for value in up.size_ticks()],
        "limit": round(100 - up.at(near[0]), 2) if near else None,
        "capacity": format_bytes(capacity) if capacity else "",
    }


def _batch(one: Candidate) -> int:
    return one.run.global_batch or 1


def _place(one: Candidate, per_sample: bool) -> tuple[float, float]:
    assert one.step is not None
    assert one.memory.device_bytes is not None
    return one.step.seconds.mid / (_batch(one) if per_sample else 1), one.memory.device_bytes.mid


def _point(
    one: Candidate, place: tuple[float, float], kind: str, across: Logarithmic, up: Logarithmic
) -> dict[str, Any]:
    seconds, size = place
    return {
        "x": across.at(seconds),
        "y": round(100 - up.at(size), 2),
        "kind": kind,
        "name": short_layout(one.parallel),
        "title": f"{short_layout(one.parallel)}, {run_words(one.run)}: {format_seconds(seconds)}, {format_bytes(size)}",
    }
