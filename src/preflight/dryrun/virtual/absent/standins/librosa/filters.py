"""Filters on the mel scale."""

from __future__ import annotations

from typing import Any

import numpy as np


def _to_mel(hertz: Any, htk: bool) -> Any:
    if htk:
        return 2595 * np.log10(1 + np.asarray(hertz) / 700)
    # Linear up to 1 kHz (200/3 Hz for a mel), then 27 mels for a factor of 6.4 (Slaney's toolbox).
    hertz = np.asarray(hertz, dtype=float)
    return np.where(hertz < 1000, hertz * 3 / 200, 15 + 27 * np.log(np.maximum(hertz, 1e-9) / 1000) / np.log(6.4))


def _to_hertz(mel: Any, htk: bool) -> Any:
    if htk:
        return 700 * (10 ** (mel / 2595) - 1)
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp(np.log(6.4) * (mel - 15) / 27))


def mel(
    sr: float = 22050,
    n_fft: int = 2048,
    n_mels: int = 128,
    fmin: float = 0.0,
    fmax: Any = None,
    htk: bool = False,
    norm: Any = "slaney",
    dtype: Any = np.float32,
) -> Any:
    """Return triangles (mels, frequencies)."""
    ends = _to_mel([fmin, fmax or sr / 2], htk)
    points = _to_hertz(np.linspace(ends[0], ends[1], n_mels + 2), htk)
    slopes = points[:, None] - np.linspace(0, sr / 2, 1 + n_fft // 2)[None]
    widths = np.diff(points)
    rising, falling = -slopes[:-2] / widths[:-1, None], slopes[2:] / widths[1:, None]
    made = np.maximum(0, np.minimum(rising, falling))
    if norm is not None:
        made *= (2 / (points[2:] - points[:-2]))[:, None]
    return made.astype(dtype)


def get_window(window: Any, Nx: int, **_: Any) -> Any:
    """Return a window of Hann."""
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(Nx) / Nx)
