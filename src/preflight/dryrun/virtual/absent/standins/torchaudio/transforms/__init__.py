"""Transforms of torchaudio: modules with the buffers that torchaudio's have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .. import functional as F

__all__ = [
    "MFCC", "AmplitudeToDB", "ComputeDeltas", "FrequencyMasking", "MelScale", "MelSpectrogram", "MuLawDecoding",
    "MuLawEncoding", "Resample", "Spectrogram", "TimeMasking", "Vol",
]  # fmt: skip


class Spectrogram(torch.nn.Module):
    """(..., time) to (..., frequencies, frames)."""

    def __init__(
        self, n_fft: int = 400, win_length: int | None = None, hop_length: int | None = None, pad: int = 0,
        window_fn: Callable[..., torch.Tensor] = torch.hann_window, power: float | None = 2.0,
        normalized: bool | str = False, wkwargs: Any = None, center: bool = True, pad_mode: str = "reflect",
        onesided: bool = True, **_: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.n_fft, self.win_length = n_fft, win_length or n_fft
        self.hop_length = hop_length or self.win_length // 2
        self.register_buffer("window", window_fn(self.win_length, **(wkwargs or {})))
        self.pad, self.power, self.normalized = pad, power, normalized
        self.center, self.pad_mode, self.onesided = center, pad_mode, onesided

    def forward(self, waveform: torch.Tensor) -> torch.Tensor:
        """Return the spectrogram."""
        window: Any = self.window
        return F.spectrogram(
            waveform, self.pad, window, self.n_fft, self.hop_length, self.win_length, self.power, self.normalized,
            self.center, self.pad_mode, self.onesided,
        )  # fmt: skip


class MelScale(torch.nn.Module):
    """(..., frequencies, frames) to (..., n_mels, frames)."""

    def __init__(
        self, n_mels: int = 128, sample_rate: int = 16000, f_min: float = 0.0, f_max: float | None = None,
        n_stft: int = 201, norm: str | None = None, mel_scale: str = "htk",
    ) -> None:  # fmt: skip
        super().__init__()
        self.n_mels, self.sample_rate = n_mels, sample_rate
        high = f_max if f_max is not None else float(sample_rate // 2)
        self.register_buffer("fb", F.melscale_fbanks(n_stft, f_min, high, n_mels, sample_rate, norm, mel_scale))

    def forward(self, specgram: torch.Tensor) -> torch.Tensor:
        """Return the spectrogram in mels."""
        fb: Any = self.fb
        return torch.matmul(specgram.transpose(-1, -2), fb).transpose(-1, -2)


class MelSpectrogram(torch.nn.Module):
    """(..., time) to (..., n_mels, frames)."""

    def __init__(
        self, sample_rate: int = 16000, n_fft: int = 400, win_length: int | None = None, hop_length: int | None = None,
        f_min: float = 0.0, f_max: float | None = None, pad: int = 0, n_mels: int = 128,
        window_fn: Callable[..., torch.Tensor] = torch.hann_window, power: float = 2.0, normalized: bool = False,
        wkwargs: Any = None, center: bool = True, pad_mode: str = "reflect", onesided: Any = None,
        norm: str | None = None, mel_scale: str = "htk",
    ) -> None:  # fmt: skip
        super().__init__()
        self.sample_rate, self.n_fft, self.n_mels = sample_rate, n_fft, n_mels
        self.spectrogram = Spectrogram(
            n_fft, win_length, hop_length, pad, window_fn, power, normalized, wkwargs, center, pad_mode
        )
        self.win_length, self.hop_length = self.spectrogram.win_length, self.spectrogram.hop_length
        self.mel_scale = MelScale(n_mels, sample_rate, f_min, f_max, n_fft // 2 + 1, norm, mel_scale)

    def forward(self, waveform: torch.Tensor) -> Any:
        """Return the spectrogram in mels."""
        return self.mel_scale(self.spectrogram(waveform))


class AmplitudeToDB(torch.nn.Module):
    """Power or amplitude to decibels."""

    def __init__(self, stype: str = "power", top_db: float | None = None) -> None:
        super().__init__()
        self.top_db, self.multiplier = top_db, 10.0 if stype == "power" else 20.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return decibels."""
        return F.amplitude_to_DB(x, self.multiplier, 1e-10, 0.0, self.top_db)


class MFCC(torch.nn.Module):
    """(..., time) to (..., n_mfcc, frames)."""

    def __init__(
        self, sample_rate: int = 16000, n_mfcc: int = 40, dct_type: int = 2, norm: str = "ortho",
        log_mels: bool = False, melkwargs: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.sample_rate, self.n_mfcc, self.log_mels = sample_rate, n_mfcc, log_mels
        self.amplitude_to_DB = AmplitudeToDB("power", 80.0)
        self.MelSpectrogram = MelSpectrogram(sample_rate=sample_rate, **(melkwargs or {}))
        self.register_buffer("dct_mat", F.create_dct(n_mfcc, self.MelSpectrogram.n_mels, norm))

    def forward(self, waveform: torch.Tensor) -> torch.Tensor:
        """Return the coefficients."""
        mel, dct = self.MelSpectrogram(waveform), self.dct_mat
        mel = torch.log(mel + 1e-6) if self.log_mels else self.amplitude_to_DB(mel)
        return torch.matmul(mel.transpose(-1, -2), dct).transpose(-1, -2)


class Resample(torch.nn.Module):
    """A sound at another rate."""

    def __init__(self, orig_freq: int = 16000, new_freq: int = 16000, *_: Any, **__: Any) -> None:
        super().__init__()
        self.orig_freq, self.new_freq = orig_freq, new_freq

    def forward(self, waveform: torch.Tensor) -> torch.Tensor:
        """Return the sound."""
        return F.resample(waveform, self.orig_freq, self.new_freq)


class _Masking(torch.nn.Module):
    axis = -1

    def __init__(self, mask_param: int, iid_masks: bool = False, p: float = 1.0) -> None:
        super().__init__()
        self.mask_param, self.p = mask_param, p

    def forward(self, specgram: torch.Tensor, mask_value: float = 0.0) -> torch.Tensor:
        """Return the spectrogram with a band masked."""
        return F.mask_along_axis(specgram, self.mask_param, mask_value, self.axis, self.p)


class FrequencyMasking(_Masking):
    """A band of frequencies is masked."""

    axis = -2

    def __init__(self, freq_mask_param: int, iid_masks: bool = False) -> None:
        super().__init__(freq_mask_param, iid_masks)


class TimeMasking(_Masking):
    """A stretch of time is masked."""

    def __init__(self, time_mask_param: int, iid_masks: bool = False, p: float = 1.0) -> None:
        super().__init__(time_mask_param, iid_masks, p)


class MuLawEncoding(torch.nn.Module):
    """Samples to classes."""

    def __init__(self, quantization_channels: int = 256) -> None:
        super().__init__()
        self.quantization_channels = quantization_channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the classes."""
        return F.mu_law_encoding(x, self.quantization_channels)


class MuLawDecoding(MuLawEncoding):
    """Classes to samples."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the samples."""
        return F.mu_law_decoding(x, self.quantization_channels)


class ComputeDeltas(torch.nn.Module):
    """Differences along time."""

    def __init__(self, win_length: int = 5, mode: str = "replicate") -> None:
        super().__init__()
        self.win_length, self.mode = win_length, mode

    def forward(self, specgram: torch.Tensor) -> torch.Tensor:
        """Return the differences."""
        return F.compute_deltas(specgram, self.win_length, self.mode)


class Vol(torch.nn.Module):
    """A louder or softer sound."""

    def __init__(self, gain: float, gain_type: str = "amplitude") -> None:
        super().__init__()
        self.factor = {"amplitude": gain, "power": math.sqrt(abs(gain)), "db": 10 ** (gain / 20)}[gain_type]

    def forward(self, waveform: torch.Tensor) -> torch.Tensor:
        """Return the sound."""
        return (waveform * self.factor).clamp(-1, 1)
