"""What the steps of a run show: where it slowed, stopped, diverged, jumped, and which rank lags.

``find_in_series`` is the way in.
Every test says how often it is wrong on a healthy series; the rates are those of simulations with autocorrelated noise.
"""

from __future__ import annotations

from preflight.investigate.series.clues import Mark
from preflight.investigate.series.find import find_in_series

__all__ = ["Mark", "find_in_series"]
