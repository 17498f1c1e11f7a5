"""A plan as the page draws it: the scatter of candidates, the stages, what the step is spent on and depends on."""

from __future__ import annotations

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
    stage_rows,
)
from preflight.report.pictures.axis import Logarithmic
from preflight.report.pictures.pipeline import pipeline_picture
from preflight.report.pictures.scatter import scatter
from preflight.vocabulary.plan import Candidate, Plan
from preflight.vocabulary.quantity import format_seconds

_SHOWN = 30
_SPENT = {
    "compute": "compute", "exposed_communication": "exposed communication", "bubble": "bubble", "optimizer": "optimizer",
    "data": "data", "host": "host",
}  # fmt: skip


def plan_view(plan: Plan) -> dict[str, Any]:
    """Return everything that the page shows of a plan."""
    chosen = plan.chosen
    return {
        "layout": layout_words(chosen.parallel) if chosen else "",
        "run": run_words(chosen.run, plan.model) if chosen else "",
        "compared_titles": COMPARED_TITLES,
        "compared": compared_rows(plan),
        "compared_reasons": compared_reasons(plan),
        "rows": run_rows(plan),
        "pipeline": pipeline_picture(plan.pipeline),
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
        "scatter": scatter(plan),
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
    across = Logarithmic([float(count) for count in gpus])
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
