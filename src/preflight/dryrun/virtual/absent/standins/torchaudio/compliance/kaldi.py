"""Filter banks as Kaldi makes them."""

from __future__ import annotations

from typing import Any

import torch

from .. import functional as F


def fbank(
    waveform: torch.Tensor, num_mel_bins: int = 23, frame_length: float = 25.0, frame_shift: float = 10.0,
    sample_frequency: float = 16000.0, low_freq: float = 20.0, high_freq: float = 0.0, use_energy: bool = False,
    use_log_fbank: bool = True, channel: int = -1, **_: Any,
) -> torch.Tensor:  # fmt: skip
    """Return (frames, num_mel_bins): whole windows only, the next power of two long."""
    size, shift = int(sample_frequency * frame_length / 1000), int(sample_frequency * frame_shift / 1000)
    padded = 1 << (size - 1).bit_length()
    frames = waveform[max(channel, 0)].unfold(0, size, shift)
    frames = frames - frames.mean(dim=1, keepdim=True)
    power = torch.fft.rfft(torch.nn.functional.pad(frames, (0, padded - size))).abs().pow(2.0)
    top = high_freq if high_freq > 0 else sample_frequency / 2 + high_freq
    bank = F.melscale_fbanks(padded // 2 + 1, low_freq, top, num_mel_bins, int(sample_frequency)).to(waveform.device)
    made = torch.mm(power, bank)
    made = made.clamp(min=torch.finfo(torch.float32).eps).log() if use_log_fbank else made
    if not use_energy:
        return made
    return torch.cat((frames.pow(2).sum(1, keepdim=True).clamp(min=1e-10).log(), made), dim=1)
