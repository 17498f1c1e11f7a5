"""Sounds and their spectra."""

from __future__ import annotations

import wave
from typing import Any

import numpy as np


def load(path: Any, sr: Any = 22050, mono: bool = True, offset: float = 0.0, duration: Any = None, **_: Any) -> Any:
    """Return a sound and its rate; of what is not a plain wave file, three seconds of silence."""
    try:
        with wave.open(path if hasattr(path, "read") else str(path), "rb") as file:
            rate, count = file.getframerate(), file.getnframes()
    except (wave.Error, EOFError):
        rate, count = sr or 22050, 3 * (sr or 22050)
    seconds = duration if duration is not None else count / rate - offset
    return np.zeros(int(seconds * (sr or rate)), dtype=np.float32), sr or rate


def resample(y: Any, orig_sr: float = 0, target_sr: float = 0, **_: Any) -> Any:
    """Return as many samples as the other rate has."""
    return np.zeros((*y.shape[:-1], int(np.ceil(y.shape[-1] * target_sr / orig_sr))), dtype=y.dtype)


def stft(y: Any, n_fft: int = 2048, hop_length: Any = None, win_length: Any = None, *_: Any, **more: Any) -> Any:
    """Return a spectrum (frequencies, frames) of silence."""
    hop = hop_length or (win_length or n_fft) // 4
    padded = y.shape[-1] + (n_fft if more.get("center", True) else 0)
    return np.zeros((*y.shape[:-1], 1 + n_fft // 2, 1 + (padded - n_fft) // hop), dtype=np.complex64)


def istft(stft_matrix: Any, hop_length: Any = None, *_: Any, **__: Any) -> Any:
    """Return a sound of the length that a spectrum tells."""
    bins, frames = stft_matrix.shape[-2:]
    return np.zeros((frames - 1) * (hop_length or (bins - 1) // 2), dtype=np.float32)


def magphase(D: Any, power: float = 1) -> Any:
    """Return magnitude and phase."""
    return np.abs(D) ** power, np.exp(1j * np.angle(D))
