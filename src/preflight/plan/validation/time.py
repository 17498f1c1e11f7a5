"""Predicted steps against published ones: by source, and by what was kept out of the fit."""

from __future__ import annotations

import statistics
from typing import Any

import msgspec
import numpy as np

from preflight.cost.machine import Coefficients
from preflight.cost.parameters import reads_text
from preflight.plan.calibration.calibrate import folds_of, held_out, residuals_of
from preflight.plan.calibration.conformal import (
    BEYOND,
    FITTED_NODE,
    FITTED_NODES,
    LEVEL,
    Regime,
    around,
    middle,
    regime_of,
    regimes,
)
from preflight.plan.calibration.fit import fit
from preflight.plan.calibration.record import Calibration, reach_of
from preflight.plan.calibration.sample import Sample, blocks_of, waiting
from preflight.plan.validation.errors import MACRO, errors_by_source, macro_average
from preflight.plan.validation.steps import Measured, measured_steps
from preflight.vocabulary.validation import Refused, Residual, SplitErrors, SweepRegret, TimeValidation

ALONE, FOLDS, MODELS, FEW = "catalog alone", "five folds", "model left out", "six rows of the cluster"
OTHER = "fitted on the other table"
_FEW_ROWS, _DRAWS, _WIDEST = 6, 3, 1.5
# Rows from which a source has as much say as any other.
_FULL_SAY = 10
# Sources whose tables are sweeps of one cluster, large enough for folds.
_FITTED = ("vtrain-a100-singlenode", "vtrain-a100-multinode")


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """Residuals of rows under one split: logarithms of measured over predicted, and the regime of each."""

    name: str
    rows: Any
    residuals: Any
    regimes: tuple[str, ...]


def validate_time(calibrated: bool = True, folder: str | None = None) -> TimeValidation:
    """Compare every published step that can be expressed with its prediction.

    Args:
        calibrated: Whether to fit as well, which takes a minute.
        folder: A folder with tables of one's own; the shipped ones when None.
    """
    measured = measured_steps(folder=folder)
    splits = splits_of(measured, calibrated)
    return TimeValidation(
        total_rows=measured.total,
        expressed_rows=len(measured.samples),
        errors=tuple(entry for split in splits for entry in _errors(measured, split)),
        regrets=tuple(entry for split in splits for entry in regrets_of(measured, split)),
        refused=tuple(Refused(source=source, reason=reason, rows=rows) for source, reason, rows in measured.refused),
    )


def splits_of(measured: Measured, calibrated: bool) -> list[Split]:
    """Return the residuals of every split."""
    samples, sources = measured.samples, np.array(measured.sources)
    splits = [_alone(samples)]
    for source in _FITTED if calibrated else ():
        rows = np.flatnonzero(sources == source)
        chosen = tuple(samples[row] for row in rows)
        name = FITTED_NODES if max(sample.cluster.nodes for sample in chosen) > 1 else FITTED_NODE
        kept = (name,) * len(rows)
        splits.append(Split(name=FOLDS, rows=rows, residuals=held_out(chosen, folds_of(len(chosen))), regimes=kept))
        models = [f"{sample.model.layers} x {sample.model.hidden}" for sample in chosen]
        names = _without(chosen, models)
        splits.append(Split(name=MODELS, rows=rows, residuals=held_out(chosen, models), regimes=names))
    return [*splits, *_beyond(samples, sources), *_few(samples, sources)] if calibrated else splits


def _without(samples: tuple[Sample, ...], models: list[str]) -> tuple[str, ...]:
    """Return the regime of every row under a calibration on the rows of all other models."""
    known = {}
    for model in set(models):
        others = tuple(sample for sample, other in zip(samples, models, strict=True) if other != model)
        gpus = tuple(sorted({sample.cluster.gpu.name for sample in others}))
        known[model] = Calibration(
            coefficients=Coefficients(), gpus=gpus, rows=len(others), fitted_on=(), reach=reach_of(others)
        )
    return tuple(
        regime_of(_nodes(one), 0.0, known[model].standing(one.model, one.run, one.parallel, one.cluster))
        for one, model in zip(samples, models, strict=True)
    )


def _beyond(samples: tuple[Sample, ...], sources: Any) -> list[Split]:
    """Return the residuals of one table under the fit of the other: one node says what many do, and the other way round."""
    splits = []
    for here, there in (_FITTED, _FITTED[::-1]):
        known, others = (np.flatnonzero(sources == source) for source in (here, there))
        found = fit(tuple(samples[row] for row in known))
        residuals = residuals_of(tuple(samples[row] for row in others), found)
        splits.append(Split(name=OTHER, rows=others, residuals=residuals, regimes=(BEYOND,) * len(others)))
    return splits


def _alone(samples: tuple[Sample, ...]) -> Split:
    blocks, cold = blocks_of(samples), Coefficients()
    shares = waiting(blocks, cold, len(samples))
    names = tuple(
        regime_of(_nodes(sample), float(share), text=reads_text(sample.model))
        for sample, share in zip(samples, shares, strict=True)
    )
    return Split(name=ALONE, rows=np.arange(len(samples)), residuals=residuals_of(samples, cold), regimes=names)


def _nodes(sample: Sample) -> float:
    return -(-sample.parallel.world_size // sample.cluster.gpus_per_node)


def _few(samples: tuple[Sample, ...], sources: Any) -> list[Split]:
    """Return the residuals of rows whose cluster was calibrated on six others, for several draws of the six."""
    clusters: dict[tuple[str, str], list[int]] = {}
    for row, sample in enumerate(samples):
        clusters.setdefault((str(sources[row]), sample.cluster.gpu.name), []).append(row)
    splits = []
    for rows in clusters.values():
        if len(rows) < 2 * _FEW_ROWS:
            continue
        for draw in range(_DRAWS):
            order = np.random.default_rng(draw).permutation(len(rows))
            known, others = ([rows[at] for at in part] for part in (order[:_FEW_ROWS], order[_FEW_ROWS:]))
            found = fit(tuple(samples[row] for row in known))
            rest = tuple(samples[row] for row in others)
            shares = waiting(blocks_of(rest), found, len(rest))
            names = tuple(regime_of(1, float(share), "few") for share in shares)
            residuals = residuals_of(rest, found)
            splits.append(Split(name=FEW, rows=np.array(others), residuals=residuals, regimes=names))
    return splits


def _errors(measured: Measured, split: Split) -> list[SplitErrors]:
    residuals = [
        Residual(
            id=measured.samples[row].name, source=measured.sources[row], model=measured.samples[row].group,
            quality="", quantity="step", measured=measured.samples[row].seconds,
            estimate=around(float(measured.samples[row].seconds / np.exp(left)), regime),
        )
        for row, left, regime in zip(split.rows, split.residuals, split.regimes, strict=True)
    ]  # fmt: skip
    found = errors_by_source(residuals)
    whole = macro_average(found) if len(found) > 1 else None
    return [SplitErrors(split=split.name, errors=entry) for entry in (*found, *((whole,) if whole else ()))]


def merged(errors: tuple[SplitErrors, ...]) -> tuple[SplitErrors, ...]:
    """Return one entry for each split and source: the mean over draws and clusters, weighted by rows."""
    groups: dict[tuple[str, str], list[SplitErrors]] = {}
    for entry in errors:
        groups.setdefault((entry.split, entry.errors.source), []).append(entry)
    return tuple(_merged(entries) for entries in groups.values())


def _merged(entries: list[SplitErrors]) -> SplitErrors:
    first = entries[0].errors
    rows = sum(entry.errors.rows for entry in entries)
    names = ("median", "mae", "median_absolute", "bias", "coverage")
    means = {name: sum(getattr(entry.errors, name) * entry.errors.rows for entry in entries) / rows for name in names}
    return SplitErrors(split=entries[0].split, errors=msgspec.structs.replace(first, rows=rows, **means))


def regrets_of(measured: Measured, split: Split) -> list[SweepRegret]:
    """Return, by source, how much slower what would be chosen is than the truly fastest of its sweep.

    A sweep of layouts is what was measured of one model on one number of GPUs of a kind, with one batch and length; one of
    clusters is a model and a length on several kinds or numbers of GPUs, of which the one is chosen that is best used.
    """
    if split.name == FEW:
        return []
    found: dict[tuple[str, str], list[float]] = {}
    for kind, sweeps in (("layouts", _sweeps(measured, split, False)), ("clusters", _sweeps(measured, split, True))):
        for (source, *_), rows in sweeps.items():
            if len({seconds for _, seconds, _ in rows}) >= 3 and (
                kind == "layouts" or len({at for *_, at in rows}) >= 3
            ):
                chosen = min(rows)[1]
                found.setdefault((source, kind), []).append(chosen / min(seconds for _, seconds, _ in rows) - 1)
    return [
        SweepRegret(
            source=source, split=split.name, sweeps=len(values), median=statistics.median(values),
            mean=statistics.fmean(values), worst=max(values), of=kind,
        )
        for (source, kind), values in sorted(found.items())
    ]  # fmt: skip


def _sweeps(measured: Measured, split: Split, clusters: bool) -> dict[tuple[Any, ...], list[tuple[float, float, str]]]:
    """Return predicted and measured seconds, with the cluster, of rows that answer the same question."""
    sweeps: dict[tuple[Any, ...], list[tuple[float, float, str]]] = {}
    for row, left in zip(split.rows, split.residuals, strict=True):
        sample = measured.samples[row]
        run, gpus = sample.run, sample.parallel.world_size
        cluster = f"{gpus} x {sample.cluster.gpu.name}"
        each = gpus / float(run.global_batch or 1) if clusters else 1.0
        key = (
            measured.sources[row], msgspec.json.encode(sample.model), run.sequence_length,
            *(() if clusters else (cluster, run.global_batch)),
        )  # fmt: skip
        seconds = sample.seconds * each
        sweeps.setdefault(key, []).append((seconds / float(np.exp(left)), seconds, cluster))
    return sweeps


def regimes_of(measured: Measured, splits: list[Split]) -> dict[str, Regime]:
    """Return the regimes that the residuals of splits speak for, every source weighing the same."""
    found: dict[str, list[tuple[float, str]]] = {}
    for split in splits:
        for row, left, name in zip(split.rows, split.residuals, split.regimes, strict=True):
            found.setdefault(name, []).append((float(left), measured.sources[row]))
    result = dict(regimes()) if not any(split.name == FOLDS for split in splits) else {}
    for name, rows in found.items():
        result[name] = _regime(rows)
    return result


def _regime(rows: list[tuple[float, str]]) -> Regime:
    """Return a regime; with several sources, widened until it holds for a source that had no part in it."""
    sources = sorted({source for _, source in rows})
    low, high = _ends(rows)
    if len(sources) == 1:
        return Regime(low=low, high=high, rows=len(rows))
    # Sources differ in what nobody states (drivers, clocks, versions): residuals of one say too little about another.
    others = {left: _ends([row for row in rows if row[1] != left]) for left in sources}
    wider, coverage = 1.0, _held(rows, others, 1.0)
    while coverage < LEVEL and wider < _WIDEST:
        wider += 0.05
        coverage = _held(rows, others, wider)
    return Regime(
        low=wider * min(low, 0.0), high=wider * max(high, 0.0), rows=len(rows), sources=len(sources),
        coverage=round(coverage, 3),
    )  # fmt: skip


def _weight(rows: int) -> float:
    """Return how much a source counts: all the same, but for those of a handful of rows."""
    return min(rows / _FULL_SAY, 1.0)


def _held(rows: list[tuple[float, str]], others: dict[str, tuple[float, float]], wider: float) -> float:
    """Return the mean over sources of the share of rows within the widened interval of all other sources."""
    held = whole = 0.0
    for source, (low, high) in others.items():
        own = [value for value, name in rows if name == source]
        inside = statistics.fmean(wider * min(low, 0.0) <= value <= wider * max(high, 0.0) for value in own)
        held, whole = held + _weight(len(own)) * inside, whole + _weight(len(own))
    return held / whole


def _ends(rows: list[tuple[float, str]]) -> tuple[float, float]:
    counts: dict[str, int] = {}
    for _, source in rows:
        counts[source] = counts.get(source, 0) + 1
    values = [value for value, _ in rows]
    if len(counts) == 1:
        return middle(values)
    return middle(values, [_weight(counts[source]) / counts[source] for _, source in rows])


__all__ = ["MACRO", "merged", "regimes_of", "splits_of", "validate_time"]
