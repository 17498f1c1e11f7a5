"""What training scripts use of torchaudio, where it is not installed: shapes and arithmetic are right, sounds are silence."""

from __future__ import annotations

import wave
from typing import Any, NamedTuple

import torch

from . import compliance, datasets, functional, transforms

__version__ = torch.__version__.partition("+")[0]
__all__ = ["compliance", "datasets", "functional", "info", "load", "save", "transforms"]
_TYPES = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


class AudioMetaData(NamedTuple):
    """What a file says of its sound."""

    sample_rate: int
    num_frames: int
    num_channels: int
    bits_per_sample: int = 16
    encoding: str = "PCM_S"


def load(
    uri: Any, frame_offset: int = 0, num_frames: int = -1, normalize: bool = True, channels_first: bool = True, **_: Any
) -> tuple[torch.Tensor, int]:
    """Return the samples of a WAV file and their rate."""
    with wave.open(uri if hasattr(uri, "read") else str(uri), "rb") as file:
        width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
        file.setpos(min(frame_offset, file.getnframes()))
        data = file.readframes(num_frames if num_frames >= 0 else file.getnframes())
    if width not in _TYPES:
        raise RuntimeError(f"{uri}: the stand-in for torchaudio reads no samples of {8 * width} bits")
    samples = torch.frombuffer(bytearray(data), dtype=_TYPES[width]) if data else torch.zeros(0, dtype=_TYPES[width])
    samples = samples.reshape(-1, channels)
    if normalize:
        samples = samples.float() / 128 - 1 if width == 1 else samples.float() / 2 ** (8 * width - 1)
    return (samples.t().contiguous() if channels_first else samples), rate


def info(uri: Any, **_: Any) -> AudioMetaData:
    """Return rate, length and channels of a WAV file."""
    with wave.open(uri if hasattr(uri, "read") else str(uri), "rb") as file:
        return AudioMetaData(file.getframerate(), file.getnframes(), file.getnchannels(), 8 * file.getsampwidth())


def save(uri: Any, src: torch.Tensor, sample_rate: int, channels_first: bool = True, **_: Any) -> None:
    """Write samples to a WAV file."""
    samples = (src.t() if channels_first else src).detach().cpu()
    values = (samples.clamp(-1, 1) * 32767).to(torch.int16).contiguous()
    with wave.open(uri if hasattr(uri, "write") else str(uri), "wb") as file:
        file.setnchannels(values.shape[1])
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(values.numpy().tobytes())


def set_audio_backend(backend: str | None) -> None:
    """Any backend is as good."""


def get_audio_backend() -> str:
    """Return the name of a backend."""
    return "soundfile"


def list_audio_backends() -> list[str]:
    """Return the names of the backends."""
    return ["soundfile"]
