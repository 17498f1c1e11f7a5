"""Functions of torchaudio: the same operators of torch, in the same order."""

from __future__ import annotations

import math
from typing import Any

import torch


def spectrogram(
    waveform: torch.Tensor, pad: int, window: torch.Tensor, n_fft: int, hop_length: int, win_length: int,
    power: float | None, normalized: bool | str, center: bool = True, pad_mode: str = "reflect", onesided: bool = True,
    **_: Any,
) -> torch.Tensor:  # fmt: skip
    """Return (..., frequencies, frames)."""
    if pad > 0:
        waveform = torch.nn.functional.pad(waveform, (pad, pad))
    shape = waveform.size()
    made = torch.stft(
        waveform.reshape(-1, shape[-1]), n_fft=n_fft, hop_length=hop_length, win_length=win_length, window=window,
        center=center, pad_mode=pad_mode, normalized=normalized == "frame_length", onesided=onesided, return_complex=True,
    )  # fmt: skip
    made = made.reshape(shape[:-1] + made.shape[-2:])
    if normalized in (True, "window"):
        made = made / window.pow(2.0).sum().sqrt()
    if power is None:
        return made
    return made.abs() if power == 1.0 else made.abs().pow(power)


def melscale_fbanks(
    n_freqs: int, f_min: float, f_max: float, n_mels: int, sample_rate: int, norm: str | None = None,
    mel_scale: str = "htk",
) -> torch.Tensor:  # fmt: skip
    """Return triangular filters (n_freqs, n_mels)."""
    frequencies = torch.linspace(0, sample_rate // 2, n_freqs)
    low, high = (2595.0 * math.log10(1.0 + f / 700.0) for f in (f_min, f_max))
    points = 700.0 * (10.0 ** (torch.linspace(low, high, n_mels + 2) / 2595.0) - 1.0)
    widths = points[1:] - points[:-1]
    slopes = points.unsqueeze(0) - frequencies.unsqueeze(1)
    made = torch.minimum(-slopes[:, :-2] / widths[:-1], slopes[:, 2:] / widths[1:]).clamp(min=0.0)
    return made * (2.0 / (points[2:] - points[:n_mels])).unsqueeze(0) if norm == "slaney" else made


def create_dct(n_mfcc: int, n_mels: int, norm: str | None) -> torch.Tensor:
    """Return the matrix of a discrete cosine transform (n_mels, n_mfcc)."""
    n, k = torch.arange(float(n_mels)), torch.arange(float(n_mfcc)).unsqueeze(1)
    made = torch.cos(math.pi / n_mels * (n + 0.5) * k)
    if norm is None:
        return (made * 2.0).t()
    made[0] *= 1.0 / math.sqrt(2.0)
    return (made * math.sqrt(2.0 / n_mels)).t()


def amplitude_to_DB(
    x: torch.Tensor, multiplier: float, amin: float, db_multiplier: float, top_db: float | None = None
) -> torch.Tensor:
    """Return decibels."""
    made = multiplier * torch.log10(torch.clamp(x, min=amin)) - multiplier * db_multiplier
    if top_db is None:
        return made
    shape = made.size()
    packed = made.reshape(-1, shape[-3] if made.dim() > 2 else 1, shape[-2], shape[-1])
    return torch.max(packed, (packed.amax(dim=(-3, -2, -1)) - top_db).view(-1, 1, 1, 1)).reshape(shape)


def resample(
    waveform: torch.Tensor,
    orig_freq: int,
    new_freq: int,
    lowpass_filter_width: int = 6,
    rolloff: float = 0.99,
    **_: Any,
) -> torch.Tensor:
    """Return a sound at another rate."""
    if orig_freq == new_freq:
        return waveform
    shared = math.gcd(int(orig_freq), int(new_freq))
    old, new = int(orig_freq) // shared, int(new_freq) // shared
    base = min(old, new) * rolloff
    width = math.ceil(lowpass_filter_width * old / base)
    places = torch.arange(-width, width + old, device=waveform.device, dtype=waveform.dtype)[None, None] / old
    times = torch.arange(0, -new, -1, device=waveform.device, dtype=waveform.dtype)[:, None, None] / new + places
    times = (times * base).clamp(-lowpass_filter_width, lowpass_filter_width)
    window = torch.cos(times * math.pi / lowpass_filter_width / 2) ** 2
    kernel = torch.sinc(times) * window * (base / old)
    shape, length = waveform.size(), waveform.shape[-1]
    padded = torch.nn.functional.pad(waveform.reshape(-1, length), (width, width + old))
    made = torch.nn.functional.conv1d(padded[:, None], kernel, stride=old)
    made = made.transpose(1, 2).reshape(padded.shape[0], -1)[..., : math.ceil(new * length / old)]
    return made.reshape(shape[:-1] + made.shape[-1:])


def mask_along_axis(
    specgram: torch.Tensor, mask_param: int, mask_value: float, axis: int, p: float = 1.0
) -> torch.Tensor:
    """Return a spectrogram with one band set to a value."""
    most = min(mask_param, int(specgram.shape[axis] * p)) if p < 1.0 else mask_param
    if most < 1:
        return specgram
    value = torch.rand(1) * most
    start = (torch.rand(1) * (specgram.size(axis) - value)).long().to(specgram.device)
    end = start + value.long().to(specgram.device)
    places = torch.arange(specgram.shape[axis], device=specgram.device)
    mask = (places >= start) & (places < end)
    return specgram.masked_fill(mask.unsqueeze(-1) if axis % specgram.dim() == specgram.dim() - 2 else mask, mask_value)


def mu_law_encoding(x: torch.Tensor, quantization_channels: int) -> torch.Tensor:
    """Return the class of every sample."""
    mu = torch.tensor(quantization_channels - 1.0, dtype=x.dtype, device=x.device)
    return ((torch.sign(x) * torch.log1p(mu * x.abs()) / torch.log1p(mu) + 1) / 2 * mu + 0.5).to(torch.int64)


def mu_law_decoding(x_mu: torch.Tensor, quantization_channels: int) -> torch.Tensor:
    """Return the samples of classes."""
    mu = torch.tensor(quantization_channels - 1.0, device=x_mu.device)
    x = x_mu.to(mu.dtype) / mu * 2 - 1.0
    return torch.sign(x) * (torch.exp(x.abs() * torch.log1p(mu)) - 1.0) / mu


def compute_deltas(specgram: torch.Tensor, win_length: int = 5, mode: str = "replicate") -> torch.Tensor:
    """Return differences along time."""
    shape, n = specgram.size(), (win_length - 1) // 2
    rows = torch.nn.functional.pad(specgram.reshape(1, -1, shape[-1]), (n, n), mode=mode)
    kernel = torch.arange(-n, n + 1, 1, device=specgram.device, dtype=specgram.dtype).repeat(rows.shape[1], 1, 1)
    return (torch.nn.functional.conv1d(rows, kernel, groups=rows.shape[1]) / (n * (n + 1) * (2 * n + 1) / 3)).reshape(
        shape
    )


def edit_distance(seq1: Any, seq2: Any) -> int:
    """Return how many changes lead from one sequence to the other."""
    row = list(range(len(seq2) + 1))
    for i, one in enumerate(seq1, 1):
        last, row[0] = row[0], i
        for j, other in enumerate(seq2, 1):
            last, row[j] = row[j], min(last + (one != other), row[j] + 1, row[j - 1] + 1)
    return row[-1]
