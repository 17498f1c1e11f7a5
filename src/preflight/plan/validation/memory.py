"""Estimated memory against published measurements of it."""

from __future__ import annotations

from collections import Counter

from preflight.catalog.measured import Row, measured_rows
from preflight.cost.memory import estimate_memory
from preflight.cost.optimizers import optimizer_state
from preflight.cost.parameters import count_parameters
from preflight.cost.recipe import recipe_of
from preflight.cost.shares import share_of
from preflight.cost.states import states_of
from preflight.plan.validation.errors import errors_by_source, macro_average
from preflight.plan.validation.expressed import CannotExpress, Expressed, gpu_of
from preflight.plan.validation.sources import express
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.quantity import GIB, Interval
from preflight.vocabulary.validation import FitsCounts, MemoryValidation, Refused, Residual

# A published peak that lies this far below parameters, gradients and states was not read at the peak of such a run.
_IMPOSSIBLE = 0.9


def validate_memory(folder: str | None = None) -> MemoryValidation:
    """Compare every published row that can be expressed with its estimate.

    Args:
        folder: A folder with tables of one's own (``memory.csv``, ``fits_oom.csv``); the shipped ones when None.
    """
    rows = measured_rows("memory", folder)
    residuals: list[Residual] = []
    refused: Counter[tuple[str, str]] = Counter()
    for row in rows:
        try:
            residuals.append(residual_of(row))
        except CannotExpress as reason:
            refused[row["source"], str(reason)] += 1
    errors = errors_by_source(residuals)
    fits, left = _verdicts(rows, measured_rows("fits_oom", folder))
    return MemoryValidation(
        total_rows=len(rows),
        errors=errors,
        macro=macro_average(errors),
        residuals=tuple(residuals),
        refused=_refused(refused),
        fits=fits,
        fits_refused=left,
    )


def _refused(counts: Counter[tuple[str, str]]) -> tuple[Refused, ...]:
    return tuple(Refused(source=source, reason=reason, rows=rows) for (source, reason), rows in sorted(counts.items()))


def residual_of(row: Row) -> Residual:
    """Return a row beside its estimate.

    Raises:
        CannotExpress: The row cannot be put into words, or is no measurement of a peak.
    """
    if row["primary"] != "1" or not row["measured_peak_gib"]:
        raise CannotExpress("no measured value with a clear unit, or a repeated row")
    expressed = express(row)
    memory = _estimate(row, expressed)
    quantity, interval = compared(row["mem_kind"], memory)
    if interval is None:
        raise CannotExpress(memory.reason or f"kind of reading: {quantity}")
    measured = float(row["measured_peak_gib"]) * GIB
    if expressed.run.finetune == "full" and measured < _IMPOSSIBLE * floor_bytes(expressed):
        raise CannotExpress("published value is below the parameters, gradients and states it names")
    parts = memory.breakdown
    return Residual(
        id=row["id"],
        source=row["source"],
        model=row["model"],
        quality=row["quality"],
        quantity=quantity,
        measured=measured,
        estimate=interval,
        parts={name: getattr(parts, name) for name in parts.__struct_fields__} if parts else {},
    )


def _estimate(row: Row, expressed: Expressed) -> MemoryEstimate:
    return estimate_memory(expressed.model, expressed.run, expressed.parallel, gpu_of(row), stage=expressed.stage)


def compared(kind: str, memory: MemoryEstimate) -> tuple[str, Interval | None]:
    """Return what a reading is called and the interval that speaks of the same thing."""
    kind = kind.lower()
    if "smi" in kind or "nvml" in kind:
        return "device", memory.device_bytes
    if "reserved" in kind:
        return "reserved", memory.reserved_bytes
    if "allocated" in kind or "active" in kind:
        return "allocated", memory.peak_bytes
    return "not stated", None


def floor_bytes(expressed: Expressed) -> float:
    """Return parameters, gradients and states together: what no peak of such a run can be below."""
    run, parallel, model = expressed.run, expressed.parallel, expressed.model
    count, optimizer = count_parameters(model), optimizer_state(run.optimizer or "")
    if count is None or optimizer is None:
        return 0.0
    recipe = recipe_of(run, parallel)
    states = states_of(model, run, parallel, share_of(model, run, count, parallel, 0), recipe, optimizer)
    return states.parameters + states.gradients + states.optimizer


def _verdicts(measured: list[Row], observed: list[Row]) -> tuple[tuple[FitsCounts, ...], tuple[Refused, ...]]:
    """Return how runs that ran and runs that ran out are judged, and which of the latter are left out."""
    table: Counter[tuple[str, str]] = Counter()
    left: Counter[tuple[str, str]] = Counter()
    for row in measured:
        try:
            table["fitted", _verdict(row)] += 1
        except CannotExpress:
            continue
    for row in observed:
        try:
            if row["outcome"] != "OOM":
                raise CannotExpress("largest batch, not a run that ran out")
            table["ran out", _verdict(row)] += 1
        except CannotExpress as reason:
            left[row["source"], str(reason)] += 1
    counts = (
        FitsCounts(observed=seen, yes=table[seen, "yes"], unknown=table[seen, "unknown"], no=table[seen, "no"])
        for seen in ("fitted", "ran out")
    )
    return tuple(counts), _refused(left)


def _verdict(row: Row) -> str:
    if gpu_of(row) is None:
        raise CannotExpress("GPU not in the catalog")
    return _estimate(row, express(row)).fits
