"""A plan as the page draws it: the scatter of candidates, the stages, what the step is spent on and depends on."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.page_memory import bar
from preflight.report.parts.plan_rows import (
    CANDIDATE_TITLES,
    COMPARED_TITLES,
    EFFECT_TITLES,
    SCALING_TITLES,
    STAGE_TITLES,
    attention_words,
    bottleneck_groups,
    candidate_rows,
    change_words,
    compared_reasons,
    compared_rows,
    effect_rows,
    layout_words,
    rate_rows,
    run_rows,
    run_words,
    scaling_rows,
    short_layout,
    stage_rows,
)
from preflight.vocabulary.plan import Candidate, Plan, same_layout
from preflight.vocabulary.quantity import format_bytes, format_seconds

_POINTS = 400
_SHOWN = 30
_KINDS = {"F": "forward", "B": "backward", "W": "gradients of weights"}
_SCHEDULES = {
    "1f1b": "one forward, one backward",
    "interleaved": "interleaved",
    "gpipe": "GPipe",
    "zb-h1": "zero bubble",
}
_SPENT = {
    "compute": "compute", "exposed_communication": "exposed communication", "bubble": "bubble", "optimizer": "optimizer",
    "data": "data", "host": "host",
}  # fmt: skip


def plan_view(plan: Plan) -> dict[str, Any]:
    """Return everything that the page shows of a plan."""
    chosen = plan.chosen
    return {
        "layout": layout_words(chosen.parallel) if chosen else "",
        "run": run_words(chosen.run) if chosen else "",
        "compared_titles": COMPARED_TITLES,
        "compared": compared_rows(plan),
        "compared_reasons": compared_reasons(plan),
        "rows": run_rows(plan),
        "pipeline": _pipeline(plan),
        "rates": rate_rows(plan),
        "goodput": one_line(plan.goodput.basis) if plan.goodput else "",
        "spent": _spent(chosen) if chosen else None,
        "bottlenecks": _bottlenecks(plan),
        "attention": attention_words(plan.attention) if plan.attention else "",
        "stage_titles": STAGE_TITLES,
        "stages": _stages(chosen) if chosen and len(chosen.stages) > 1 else [],
        "candidate_titles": CANDIDATE_TITLES,
        "candidates": candidate_rows(plan.candidates[:_SHOWN]) if plan.searched > 1 else [],
        "searched": f"{plan.searched:,}",
        "scatter": _scatter(plan),
        "scaling": _scaling(plan),
        "experiment": one_line(plan.experiment or ""),
        "rejected": [(f"{item.count:,}", one_line(item.reason)) for item in plan.rejected],
        "effects": [
            {"cells": row, "fits": effect.fits, "side": one_line(effect.side_effect or "")}
            for row, effect in zip(effect_rows(plan.sensitivities), plan.sensitivities, strict=True)
            if plan.bottlenecks
        ],
        "effect_titles": EFFECT_TITLES,
        "settings": [
            (name, "\n".join(clean(line) for line in text.split("\n"))) for name, text in plan.settings.items()
        ],
        "settings_reasons": [(name, one_line(reason)) for name, reason in plan.settings_reasons.items()],
        "assumptions": [one_line(said) for said in plan.assumptions],
    }


def _bottlenecks(plan: Plan) -> list[dict[str, Any]]:
    """Return what holds the run back, group by group."""
    return [
        {
            "title": title,
            "rows": [
                {
                    "name": one.name,
                    "percent": f"{one.share * 100:.0f}",
                    "bar": bar(one.share, 1.0),
                    "text": one_line(one.text),
                    "change": change_words(one),
                }
                for one in found
            ],
        }
        for title, found in bottleneck_groups(plan)
    ]


def _spent(chosen: Candidate) -> dict[str, Any] | None:
    """Return the parts of the step as one stacked bar."""
    if chosen.step is None or chosen.step.breakdown is None:
        return None
    spent = chosen.step.breakdown
    parts, start = [], 0.0
    for field, name in _SPENT.items():
        seconds = getattr(spent, field)
        share = seconds / spent.total * 100
        if share >= 0.05:
            parts.append(
                {
                    "field": field,
                    "name": name,
                    "time": format_seconds(seconds),
                    "percent": f"{share:.1f}",
                    "start": round(start, 2),
                    "extent": round(share, 2),
                }
            )
        start += share
    return {"total": format_seconds(spent.total), "parts": parts}


def _stages(chosen: Candidate) -> list[dict[str, Any]]:
    """Return the stages with a bar of device memory against the capacity."""
    limit = chosen.memory.capacity_bytes
    full = max(max(stage.device_bytes for stage in chosen.stages), limit or 0) * 1.02
    rows = stage_rows(chosen)
    return [
        {"cells": cells, "bar": bar(stage.allocated_bytes, full, reserved=stage.device_bytes, limit=limit)}
        for cells, stage in zip(rows, chosen.stages, strict=True)
    ]


def _pipeline(plan: Plan) -> dict[str, Any] | None:
    """Return a row of pieces of work for every stage, in percent of the time that is shown."""
    line = plan.pipeline
    if line is None or not line.spans:
        return None
    full = max(span.end for span in line.spans)
    rows: dict[int, list[dict[str, Any]]] = {}
    for span in line.spans:
        chunk = f", chunk {span.chunk}" if span.chunk else ""
        rows.setdefault(span.stage, []).append(
            {
                "kind": span.kind + ("-odd" if span.micro % 2 else ""),
                "x": round(100 * span.start / full, 3),
                "width": round(100 * (span.end - span.start) / full, 3),
                "title": f"{_KINDS[span.kind]} of micro-batch {span.micro}{chunk}: {format_seconds(span.end - span.start)}",
            }
        )
    return {
        "schedule": _SCHEDULES.get(line.schedule, line.schedule),
        "seconds": format_seconds(line.seconds),
        "bubble": f"{line.bubble * 100:.1f} %",
        "micro": line.micro_batches,
        "shown": line.shown_micro_batches,
        "rows": [{"stage": stage, "pieces": pieces} for stage, pieces in sorted(rows.items())],
    }


def _scatter(plan: Plan) -> dict[str, Any] | None:
    """Return points of memory against the time of a step, both logarithmic, in percent of the drawing."""
    known = [one for one in (*plan.candidates, *plan.pareto) if one.step is not None and one.memory.device_bytes]
    if plan.searched <= 1 or len(known) < 2:
        return None
    front = {same_layout(one) for one in plan.pareto}
    best = same_layout(plan.chosen) if plan.chosen else None
    times = [one.step.seconds.mid for one in known if one.step] + [point.step_seconds for point in plan.cloud]
    sizes = [one.memory.device_bytes.mid for one in known if one.memory.device_bytes]
    sizes += [point.device_bytes for point in plan.cloud]
    across, up = _Axis(times), _Axis(sizes)
    points = [
        {
            "x": across.at(point.step_seconds),
            "y": 100 - up.at(point.device_bytes),
            "kind": "other",
            "title": f"{format_seconds(point.step_seconds)}, {format_bytes(point.device_bytes)}",
        }
        for point in plan.cloud
    ]
    for one in known[:_POINTS]:
        if one.step is None or one.memory.device_bytes is None:
            continue
        key = same_layout(one)
        points.append(
            {
                "x": across.at(one.step.seconds.mid),
                "y": 100 - up.at(one.memory.device_bytes.mid),
                "kind": "best" if key == best else "front" if key in front else "other",
                "title": f"{short_layout(one.parallel)}, micro-batch {one.run.micro_batch}: "
                f"{format_seconds(one.step.seconds.mid)}, {format_bytes(one.memory.device_bytes.mid)}",
            }
        )
    order = {"other": 0, "front": 1, "best": 2}
    capacity = known[0].memory.capacity_bytes
    limit = None if capacity is None or not up.low < capacity < up.high else 100 - up.at(capacity)
    return {
        "points": sorted(points, key=lambda point: order[str(point["kind"])]),
        "across": [{"at": across.at(value), "name": format_seconds(value)} for value in across.ticks()],
        "up": [{"at": 100 - up.at(value), "name": format_bytes(value)} for value in up.ticks()],
        "limit": limit,
        "capacity": format_bytes(capacity) if capacity else "",
    }


_CURVES = (("strong", "the same batch"), ("weak", "a batch that grows with the GPUs"))


def _scaling(plan: Plan) -> dict[str, Any] | None:
    """Return efficiency over the number of GPUs, one curve for each kind, with their tables."""
    if plan.scaling is None:
        return None
    curves = [(name, words, getattr(plan.scaling, name)) for name, words in _CURVES]
    curves = [curve for curve in curves if len(curve[2]) > 1]
    if not curves:
        return None
    gpus = sorted({point.gpus for _, _, points in curves for point in points})
    across = _Axis([float(count) for count in gpus])
    top = max(1.0, max(point.efficiency for _, _, points in curves for point in points)) * 1.05
    drawn = []
    for name, words, points in curves:
        dots = [
            {
                "x": across.at(point.gpus),
                "y": round(100 - 100 * point.efficiency / top, 2),
                "title": f"{point.gpus:,} GPUs, {words}: {point.efficiency * 100:.0f} %",
            }
            for point in points
        ]
        pairs = list(pairwise(dots))
        drawn.append({"name": name, "words": words, "dots": dots, "lines": pairs, "rows": scaling_rows(points)})
    return {
        "curves": drawn,
        "titles": SCALING_TITLES,
        "across": [{"at": across.at(count), "name": f"{count:,}"} for count in gpus],
        "up": [{"at": round(100 - share / top, 2), "name": f"{share} %"} for share in (25, 50, 75, 100)],
    }


class _Axis:
    """A logarithmic axis over some values, with a little room at both ends."""

    def __init__(self, values: list[float]) -> None:
        self.low, self.high = min(values) * 0.94, max(values) * 1.06

    def at(self, value: float) -> float:
        """Return the place of a value in percent."""
        return round(100 * math.log(value / self.low) / math.log(self.high / self.low), 2)

    def ticks(self) -> list[float]:
        """Return four values, evenly apart on the axis."""
        return [self.low * (self.high / self.low) ** (part / 4) for part in (0.5, 1.5, 2.5, 3.5)]
