"""From measured steps to a calibration that knows its own error."""

from __future__ import annotations

from typing import Any

import numpy as np

from preflight.cost.machine import Coefficients
from preflight.errors import UsageError
from preflight.plan.calibration.conformal import middle
from preflight.plan.calibration.fit import fit
from preflight.plan.calibration.record import ENOUGH_ROWS, Calibration, reach_of
from preflight.plan.calibration.sample import Sample, blocks_of, predicted

_FOLDS = 5


def calibrate(
    samples: tuple[Sample, ...], sources: tuple[str, ...] = (), start: Coefficients | None = None
) -> Calibration:
    """Return the calibration that samples speak for.

    Args:
        samples: Measured steps, all of one cluster and software as far as possible.
        sources: Where they came from.
        start: What is known beforehand, the catalog's coefficients when None.

    Raises:
        UsageError: There is nothing to calibrate on.
    """
    if not samples:
        raise UsageError("no measured step to calibrate on", "rows need a layout, a batch and seconds")
    low = high = error = None
    if len(samples) >= ENOUGH_ROWS:
        residuals = held_out(samples, folds_of(len(samples)), start)
        low, high = middle(residuals.tolist())
        error = float(np.median(np.abs(np.expm1(-residuals))))
    return Calibration(
        coefficients=fit(samples, start), gpus=tuple(sorted({sample.cluster.gpu.name for sample in samples})),
        rows=len(samples), fitted_on=sources, reach=reach_of(samples), low=low, high=high, error=error,
    )  # fmt: skip


def folds_of(count: int, folds: int = _FOLDS) -> Any:
    """Return the fold of every row: evenly many in each, shuffled, the same in every run."""
    return np.random.default_rng(0).permutation(count) % folds


def held_out(samples: tuple[Sample, ...], folds: Any, start: Coefficients | None = None) -> Any:
    """Return logarithms of measured over predicted, each predicted by a fit that left its fold out."""
    residuals = np.zeros(len(samples))
    labels = np.asarray(folds)
    for fold in np.unique(labels):
        inside = tuple(sample for sample, label in zip(samples, labels, strict=True) if label != fold)
        outside = tuple(sample for sample, label in zip(samples, labels, strict=True) if label == fold)
        residuals[labels == fold] = residuals_of(outside, fit(inside, start))
    return residuals


def residuals_of(samples: tuple[Sample, ...], coefficients: Coefficients) -> Any:
    """Return logarithms of measured over predicted seconds."""
    seconds = predicted(blocks_of(samples), coefficients, len(samples))
    return np.log([sample.seconds for sample in samples]) - np.log(seconds)
