"""The most likely coefficients, given measured steps and what is known beforehand.

Coefficients live in log space around their defaults; each has a normal prior, each row a residual of logarithms with a
robust weight. Levenberg-Marquardt with finite differences finds the maximum of the posterior. A coefficient that no row
informs stays where it is: its column of the Jacobian is zero, and only the prior speaks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from preflight.cost.machine import Coefficients
from preflight.plan.calibration.prior import PRIORS
from preflight.plan.calibration.sample import Block, Sample, blocks_of, predicted

# How far a formula without errors of its own would lie from a measured step, as a logarithm.
_NOISE = 0.06
# Residuals beyond so many times the noise count less and less (Huber's loss).
_ROBUST = 1.5
_DIFFERENCE = 1e-4
_ROUNDS = 25
_ENOUGH = 1e-3


def fit(samples: tuple[Sample, ...], start: Coefficients | None = None) -> Coefficients:
    """Return the coefficients that the samples and the priors make most likely.

    Args:
        samples: Measured steps.
        start: What is known before: the catalog's values when None, another calibration otherwise. Priors stand around it.
    """
    if not samples:
        return start or Coefficients()
    blocks, names = blocks_of(samples), list(PRIORS)
    measured = np.log([sample.seconds for sample in samples])
    base = start or Coefficients()
    spread = np.array([PRIORS[name].spread for name in names])
    theta, damping = np.zeros(len(names)), 1e-2
    residual = _residual(blocks, measured, base, names, theta)
    cost = _cost(residual, theta, spread)
    limit = _limits(base, names)
    informed: Any = np.ones(len(names), dtype=bool)
    for _ in range(_ROUNDS):
        slope = _slope(blocks, measured, base, names, theta, residual, informed)
        informed = np.any(slope != 0.0, axis=0)
        weight = _weight(residual)
        hessian = slope.T @ (weight[:, None] * slope) + np.diag(spread**-2)
        gradient = slope.T @ (weight * residual) + theta / spread**2
        free = np.flatnonzero((theta < limit) | (gradient > 0))
        moved = False
        while damping < 1e8:
            trial = theta.copy()
            inner = hessian[np.ix_(free, free)]
            trial[free] -= np.linalg.solve(inner + damping * np.diag(np.diag(inner)), gradient[free])
            trial = np.minimum(trial, limit)
            after = _residual(blocks, measured, base, names, trial)
            lower = _cost(after, trial, spread)
            if lower < cost:
                moved = cost - lower > _ENOUGH * cost
                theta, residual, cost, damping = trial, after, lower, max(damping / 10, 1e-6)
                break
            damping *= 10
        if not moved:
            break
    return coefficients_at(base, names, theta)


def coefficients_at(base: Coefficients, names: list[str], theta: Any) -> Coefficients:
    """Return the coefficients at a place in log space."""
    values = {name: float(getattr(base, name) * np.exp(value)) for name, value in zip(names, theta, strict=True)}
    return Coefficients(**values)


def _limits(base: Coefficients, names: list[str]) -> Any:
    """Return how far up every coefficient may go before a share is above what physics admits."""
    limits = []
    for name in names:
        most, start = PRIORS[name].most, getattr(base, name)
        limits.append(np.inf if most is None else float(np.log(max(most, start) / start)))
    return np.array(limits)


def _residual(blocks: list[Block], measured: Any, base: Coefficients, names: list[str], theta: Any) -> Any:
    """Return logarithms of predicted over measured seconds, in units of the noise."""
    seconds = predicted(blocks, coefficients_at(base, names, theta), len(measured))
    return (np.log(seconds) - measured) / _NOISE


def _slope(
    blocks: list[Block],
    measured: Any,
    base: Coefficients,
    names: list[str],
    theta: Any,
    residual: Any,
    informed: Any,
) -> Any:
    """Return the Jacobian; a coefficient that the rows said nothing of in the round before is not asked again."""
    columns = []
    for at in range(len(names)):
        if not informed[at]:
            columns.append(np.zeros(len(residual)))
            continue
        beside = theta.copy()
        beside[at] += _DIFFERENCE
        columns.append((_residual(blocks, measured, base, names, beside) - residual) / _DIFFERENCE)
    return np.stack(columns, axis=1)


def _weight(residual: Any) -> Any:
    size = np.abs(residual)
    return np.where(size <= _ROBUST, 1.0, _ROBUST / np.maximum(size, 1e-12))


def _cost(residual: Any, theta: Any, spread: Any) -> float:
    size = np.abs(residual)
    loss = np.where(size <= _ROBUST, 0.5 * size**2, _ROBUST * (size - 0.5 * _ROBUST))
    return float(loss.sum() + 0.5 * ((theta / spread) ** 2).sum())
