"""The candidates of a plan as one table for spreadsheets and data frames."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.plan import Candidate, same_layout
from preflight.vocabulary.report import Report

Cell = str | int | float | None
_PARALLEL = ("dp_replicate", "dp_shard", "zero_stage", "tp", "pp", "vp", "cp", "ep")
_RUN = (
    "micro_batch",
    "global_batch",
    "sequence_length",
    "precision",
    "optimizer",
    "recompute",
    "recompute_layers",
    "cross_entropy",
)
_MEMORY = ("peak_bytes", "reserved_bytes", "device_bytes")
_STEP = ("compute", "exposed_communication", "bubble", "optimizer", "data", "host")
PLAN_TITLES = (
    "chosen", "pareto", *_PARALLEL, *_RUN, *_MEMORY, "capacity_bytes", "fits", "p_fit", "step_seconds_low", "step_seconds",
    "step_seconds_high", "tokens_per_second_per_gpu", "mfu", *(f"{part}_seconds" for part in _STEP), "gpu_hours", "usd",
    "kwh",
)  # fmt: skip


def plan_rows(report: Report) -> list[list[Cell]]:
    """Return one row for each candidate, the chosen one first."""
    plan = report.plan
    if plan is None:
        return []
    chosen = same_layout(plan.chosen) if plan.chosen is not None else None
    shown = [one for one in plan.candidates if same_layout(one) != chosen]
    if plan.chosen is not None:
        shown.insert(0, plan.chosen)
    front = {same_layout(one) for one in plan.pareto}
    return [_row(one, same_layout(one) == chosen, same_layout(one) in front) for one in shown]


def compared_cells(report: Report) -> list[list[Cell]]:
    """Return one row for each cluster that is compared: its name, the layout, the seconds of the whole run."""
    rows: list[list[Cell]] = []
    for one in report.plan.compared if report.plan is not None else ():
        seconds = one.duration.seconds if one.duration is not None else None
        blank: list[Cell] = [None] * len(PLAN_TITLES)
        cells = blank
        if one.candidate is not None:
            cells = _row(msgspec.structs.replace(one.candidate, cost=one.cost), False, False)
        rows.append([one.cluster, *cells, seconds.mid if seconds is not None else None])
    return rows


def _row(one: Candidate, chosen: bool, best: bool) -> list[Cell]:
    memory, step, cost = one.memory, one.step, one.cost
    sizes: list[Cell] = [getattr(memory, name).mid if getattr(memory, name) else None for name in _MEMORY]
    times: list[Cell] = [step.seconds.low, step.seconds.mid, step.seconds.high] if step else [None] * 3
    spent: list[Cell] = [None] * len(_STEP)
    if step is not None and step.breakdown is not None:
        spent = [getattr(step.breakdown, part) for part in _STEP]
    money: list[Cell] = [None] * 3
    if cost is not None:
        money = [cost.gpu_hours, cost.usd.mid if cost.usd else None, cost.kwh]
    return [
        str(chosen).lower(), str(best).lower(), *(getattr(one.parallel, name) for name in _PARALLEL),
        *(getattr(one.run, name) for name in _RUN), *sizes, memory.capacity_bytes, memory.fits, memory.p_fit, *times,
        step.tokens_per_second_per_gpu if step else None, step.mfu if step else None, *spent, *money,
    ]  # fmt: skip
