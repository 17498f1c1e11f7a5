"""The report around a layout: what it costs, how long it takes, what hurts, what else could be done, and its settings."""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.cost.machine import compute_dtype
from preflight.plan.advise import advise
from preflight.plan.advise.attention import attention_of
from preflight.plan.bandwidth import rates_of
from preflight.plan.duration import duration_of
from preflight.plan.goodput import goodput_of
from preflight.plan.largest_batch import largest_batch
from preflight.plan.on_host import offloaded
from preflight.plan.pipeline.picture import pipeline_of
from preflight.plan.request import Request
from preflight.plan.roofline import roofline_of
from preflight.plan.scaling import scaling_of
from preflight.plan.settings import settings_of
from preflight.plan.spending import cost_of
from preflight.vocabulary.plan import Candidate, Plan
from preflight.vocabulary.report import SCHEMA, Report, Tool, Verdict
from preflight.vocabulary.version import VERSION

_VERDICTS: dict[str, Verdict] = {"yes": "GO", "no": "NO-GO", "unknown": "UNKNOWN"}


def report_of(ready: Request, chosen: Candidate, plan: Plan) -> Report:
    """Return the report of a plan around the layout that was chosen."""
    duration = duration_of(ready, chosen) if not ready.basic else None
    advice = advise(ready, chosen)
    settings, reasons = settings_of(ready, chosen)
    host = offloaded(ready, chosen)
    if chosen.step is not None and advice.bottleneck is not None:
        chosen = msgspec.structs.replace(
            chosen, step=msgspec.structs.replace(chosen.step, bottleneck=advice.bottleneck)
        )
    plan = msgspec.structs.replace(
        plan,
        model=msgspec.structs.replace(ready.model, network=None),
        chosen=chosen,
        scaling=scaling_of(ready) if chosen.step else None,
        duration=duration,
        cost=cost_of(ready.cluster, duration) if duration else None,
        largest_batch=largest_batch(ready) if ready.max_batch_size else None,
        goodput=goodput_of(ready, chosen) if chosen.step else None,
        rates=rates_of(ready),
        pipeline=pipeline_of(ready) if chosen.step else None,
        attention=attention_of(ready),
        settings=settings,
        settings_reasons=reasons,
        sensitivities=advice.sensitivities,
        drivers=advice.drivers,
        bottlenecks=advice.bottlenecks,
        assumptions=(*ready.assumptions, *host.assumptions),
    )
    step: dict[str, Any] | None = msgspec.to_builtins(chosen.step) if chosen.step else None
    return Report(
        schema=SCHEMA, command="plan", tool=Tool("preflight", VERSION), verdict="NO-GO" if host.too_much else _VERDICTS[chosen.memory.fits],
        inputs=dict(ready.inputs), memory=chosen.memory, step=step, plan=plan, roofline=roofline_of(ready) if chosen.step else None,
        recommendations=advice.recommendations, notes=(*host.notes, *ready.notes, *_not_known(ready, chosen)),
    )  # fmt: skip


def _not_known(ready: Request, chosen: Candidate) -> tuple[str, ...]:
    """Return why a plan has no time, where it has none."""
    if chosen.step is not None or ready.basic:
        return ()
    gpu, dtype = ready.cluster.gpu, compute_dtype(ready.run)
    if not gpu.peak_flops.get(dtype):
        return (f"the time of a step is not known: the catalog has no rate of {dtype} products for the {gpu.title}",)
    what = ready.model.name or ready.model.family.replace("_", " ")
    return (
        f"the time of a step is not known: no formula counts the operations of {what}; "
        "--script train.py --dry-run measures them on a virtual GPU",
    )
