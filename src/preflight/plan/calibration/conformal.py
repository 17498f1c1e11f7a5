"""Intervals from residuals: what measured steps were over their predictions, by regime.

Split-conformal (Vovk et al. 2005; Lei et al. 2018): the middle 90 % of the residuals of rows that had no part in the fit,
with the correction for their number. No shape of distribution is assumed. Regimes are kept apart, because a formula that
was calibrated on the cluster at hand is nearer to the truth than one that knows the catalog alone, and a step that waits
for the host is known least.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from preflight.vocabulary.quantity import Interval

LEVEL = 0.90
# From this share of the step on, launching kernels decides how long it takes.
_WAITING = 0.25
_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "intervals.json")

CATALOG_NODE, CATALOG_NODES = "catalog, one node", "catalog, many nodes"
CATALOG_HOST = "catalog, waiting for the host"
CATALOG_IMAGES = "catalog, network of images"
FITTED_NODE, FITTED_NODES = "calibrated, one node", "calibrated, many nodes"
FITTED_OTHER = "calibrated on other models"
FITTED_FEW = "calibrated on a few rows"
FITTED_HOST = "calibrated on a few rows, waiting for the host"
BEYOND = "extrapolated beyond what was calibrated"


class Regime(msgspec.Struct, frozen=True, kw_only=True):
    """The middle 90 % of measured over predicted, as logarithms, and how many rows they are of.

    Attributes:
        rows: How many. sources: From how many sources. coverage: The share of rows that the interval holds when the
            source (or the fold) of the row had no part in it; None where that was not tried.
    """

    low: float
    high: float
    rows: int
    sources: int = 1
    coverage: float | None = None


def middle(residuals: Sequence[float], weights: Sequence[float] | None = None) -> tuple[float, float]:
    """Return the ends of the middle 90 % of residuals, each counting as much as its weight.

    Without weights the ranks have the correction of split-conformal prediction: of n residuals the (n + 1) x 0.95-th.
    """
    tail = (1 - LEVEL) / 2
    ordered = sorted(residuals)
    if weights is None:
        count = len(ordered)
        low = max(int((count + 1) * tail) - 1, 0)
        high = min(-int(-(count + 1) * (1 - tail)) - 1, count - 1)
        return ordered[low], ordered[max(high, low)]
    pairs = sorted(zip(residuals, weights, strict=True))
    whole = sum(weights)
    return _weighted(pairs, tail * whole), _weighted(pairs, (1 - tail) * whole)


def _weighted(pairs: list[tuple[float, float]], wanted: float) -> float:
    below = 0.0
    for value, weight in pairs:
        below += weight
        if below >= wanted:
            return value
    return pairs[-1][0]


@cache
def regimes() -> dict[str, Regime]:
    """Return the shipped regimes, which the validation on the shipped measurements writes."""
    with open(_FILE, "rb") as stream:
        return msgspec.json.decode(stream.read(), type=dict[str, Regime])


def write_regimes(found: dict[str, Regime], path: str = _FILE) -> None:
    """Write regimes to the file that `regimes` reads."""
    rounded = {
        name: msgspec.structs.replace(one, low=round(one.low, 4), high=round(one.high, 4))
        for name, one in sorted(found.items())
    }
    with open(path, "wb") as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(rounded), indent=1) + b"\n")


def regime_of(nodes: float, waiting: float, calibration: str | None = None, text: bool = True) -> str:
    """Return the regime that a prediction belongs to.

    Args:
        nodes: Nodes of the run.
        waiting: Share of the step in which the GPU waits for the host.
        calibration: None with the catalog alone; ``inside``, ``other``, ``few`` or ``beyond`` for a calibration.
        text: Whether the model is a stack of blocks that reads tokens; what is known of networks of images is another
            thing, and less.
    """
    if calibration == "beyond":
        return BEYOND
    if calibration == "other":
        return FITTED_OTHER
    if calibration == "few":
        return FITTED_HOST if waiting >= _WAITING else FITTED_FEW
    if calibration == "inside":
        return FITTED_NODES if nodes > 1 else FITTED_NODE
    if waiting >= _WAITING:
        return CATALOG_HOST
    if not text:
        return CATALOG_IMAGES
    return CATALOG_NODES if nodes > 1 else CATALOG_NODE


def around(seconds: Any, name: str, own: tuple[float, float] | None = None) -> Interval:
    """Return the interval of a prediction in a regime.

    Args:
        seconds: The prediction.
        name: The regime.
        own: Ends of a calibration's own residuals, where it has enough rows; they stand in the place of the shipped ones.
    """
    from math import exp

    shipped = regimes()[name]
    low, high = own if own is not None else (shipped.low, shipped.high)
    return Interval(seconds * exp(min(low, 0.0)), seconds, seconds * exp(max(high, 0.0)))
