"""The values of a report that can be held beside those of another one."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any, Literal

import msgspec

from preflight.vocabulary.comparison import Aspect
from preflight.vocabulary.finding import Scalar
from preflight.vocabulary.memory import TOTALS
from preflight.vocabulary.plan import Plan
from preflight.vocabulary.report import Report
from preflight.vocabulary.watched import Series

_RATES = {
    "tokens_per_second_per_gpu": ("tokens of a GPU", "/s"), "samples_per_second": ("samples", "/s"),
    "model_tflops_per_gpu": ("work of a GPU", "TFLOP/s"), "mfu": ("MFU", "share"),
}  # fmt: skip
STEP = "step, median"
_WARM = 0.1
"""The first tenth of a run's step times is not counted: memory is found and kernels are chosen in it."""


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A value, what it is a part of, its unit, and which way is better."""

    aspect: Aspect
    name: str
    value: Scalar
    unit: str | None = None
    better: Literal["lower", "higher"] | None = None


def values(report: Report) -> Iterator[Value]:
    """Yield everything of a report that has a name which another report can have, too."""
    yield from _memory(report)
    yield from _step(report)
    if report.plan is not None:
        yield from _plan(report.plan)
        yield from _planned(report)
    if report.efficiency is not None:
        yield Value(
            aspect="score", name="efficiency", value=round(report.efficiency.score, 1), unit="%", better="higher"
        )
    for name, fact in report.facts.items():
        if fact.known:
            yield Value(aspect="setting", name=name, value=_plain(fact.value))
    yield from watched_values(report)
    yield from _incident(report)


def _memory(report: Report) -> Iterator[Value]:
    memory = report.memory
    if memory is None:
        return
    for field, name in TOTALS.items():
        interval = getattr(memory, field)
        if interval is not None:
            yield Value(aspect="memory", name=name, value=interval.mid, unit="bytes", better="lower")
    if memory.breakdown is not None:
        for field in memory.breakdown.__struct_fields__:
            size = getattr(memory.breakdown, field)
            yield Value(aspect="memory", name=field.replace("_", " "), value=size, unit="bytes", better="lower")
    if memory.capacity_bytes is not None:
        yield Value(aspect="memory", name="capacity of the GPU", value=memory.capacity_bytes, unit="bytes")
        yield Value(aspect="memory", name="fits", value=memory.fits)
    if memory.oom is not None:
        yield Value(aspect="memory", name="runs out at", value=f"step {memory.oom.step}, {memory.oom.phase}")


def _step(report: Report) -> Iterator[Value]:
    step: dict[str, Any] = report.step or {}
    seconds = step.get("seconds")
    if isinstance(seconds, dict) and seconds.get("mid") is not None:
        yield Value(aspect="time", name="step", value=seconds["mid"], unit="s", better="lower")
    for name, (title, unit) in _RATES.items():
        if isinstance(step.get(name), (int, float)):
            yield Value(aspect="time", name=title, value=step[name], unit=unit, better="higher")
    for name, part in (step.get("breakdown") or {}).items():
        if isinstance(part, (int, float)):
            yield Value(aspect="time", name=f"of it {name.replace('_', ' ')}", value=part, unit="s", better="lower")


def _planned(report: Report) -> Iterator[Value]:
    """What is planned, and on what."""
    for name, title in (("gpu", "GPU"), ("gpus", "GPUs")):
        if report.inputs.get(name) is not None:
            yield Value(aspect="layout", name=title, value=_plain(report.inputs[name]))
    model = report.plan.model if report.plan is not None else None
    for field in model.__struct_fields__ if model is not None else ():
        value = getattr(model, field)
        if isinstance(value, (bool, int, float, str)):
            yield Value(aspect="layout", name=f"model, {field.replace('_', ' ')}", value=value)


def _plan(plan: Plan) -> Iterator[Value]:
    if plan.chosen is not None:
        for part in (plan.chosen.parallel, plan.chosen.run):
            for field in part.__struct_fields__:
                value = getattr(part, field)
                if value is not None:
                    yield Value(aspect="layout", name=field.replace("_", " "), value=_plain(value))
    if plan.duration is not None and plan.duration.seconds is not None:
        yield Value(aspect="time", name="whole run", value=plan.duration.seconds.mid, unit="s", better="lower")
    cost = plan.cost
    if cost is not None:
        if cost.usd is not None:
            yield Value(aspect="cost", name="money", value=cost.usd.mid, unit="USD", better="lower")
        for name, value, unit in (("GPU-hours", cost.gpu_hours, None), ("energy", cost.kwh, "kWh")):
            if value is not None:
                yield Value(aspect="cost", name=name, value=value, unit=unit, better="lower")


def watched_values(report: Report) -> Iterator[Value]:
    """Yield what was measured of a run that was watched."""
    watched = report.watched
    if watched is None:
        return
    yield Value(aspect="setting", name="optimizer steps", value=watched.steps)
    if watched.world_size is not None:
        yield Value(aspect="setting", name="world_size", value=watched.world_size)
    for field, most in (
        ("peak_bytes", [one.peak_bytes for one in watched.memory]),
        ("reserved_bytes", [one.peak_reserved_bytes for one in watched.memory if one.peak_reserved_bytes is not None]),
    ):
        if most:
            yield Value(aspect="memory", name=TOTALS[field], value=max(most), unit="bytes", better="lower")
    for one in watched.series:
        if one.unit == "B":
            continue  # what a process holds at its end says less than the most that it held
        finite = [value for value in one.values if value is not None]
        if not finite or one.rank != min(
            (other.rank for other in watched.series if _same(one, other)), default=one.rank
        ):
            continue
        of = f" of {one.subject}" if one.subject and one.name != "loss" else ""
        if one.name == "step time":
            later = finite[int(len(finite) * _WARM) :]
            yield Value(aspect="time", name=STEP, value=median(later), unit=one.unit or "s", better="lower")
        else:
            yield Value(aspect="score", name=f"last {one.name}{of}", value=finite[-1], unit=one.unit)


def _same(one: Series, other: Series) -> bool:
    return (one.name, one.subject) == (other.name, other.subject)


def _incident(report: Report) -> Iterator[Value]:
    incident = report.incident
    if incident is None:
        return
    for name in ("state", "category", "signature"):
        value = getattr(incident, name)
        if value is not None:
            yield Value(aspect="incident", name=name, value=str(value))
    if incident.culprit is not None and incident.culprit.ranks:
        yield Value(aspect="incident", name="ranks at fault", value=", ".join(map(str, incident.culprit.ranks)))


def _plain(value: Any) -> Scalar:
    """A value as a number or a word; what has parts, as its parts in words."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return ", ".join(str(_plain(one)) for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(one)}" for key, one in value.items())
    return str(value)
