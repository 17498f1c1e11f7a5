"""What training scripts use of librosa, where it is not installed: shapes and filters are right, sounds are silent."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import core, effects, feature, filters, util

__version__ = "0.0.0"
__all__ = ["core", "effects", "feature", "filters", "istft", "load", "resample", "stft", "util"]
load, resample, stft, istft = core.load, core.resample, core.stft, core.istft


def amplitude_to_db(S: Any, *_: Any, **__: Any) -> Any:
    """Return decibels."""
    return 20 * np.log10(np.maximum(1e-5, np.abs(S)))


def power_to_db(S: Any, *_: Any, **__: Any) -> Any:
    """Return decibels."""
    return 10 * np.log10(np.maximum(1e-10, S))


def db_to_amplitude(S_db: Any, ref: float = 1.0) -> Any:
    """Return amplitudes."""
    return ref * 10 ** (0.05 * S_db)


def get_duration(*_: Any, y: Any = None, sr: float = 22050, **__: Any) -> float:
    """Return a length in seconds."""
    return 3.0 if y is None else len(y) / sr
