"""Tensors of every kind of number, filled with random bits, and their fingerprints."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import HealthCheck, settings  # noqa: E402

from preflight.monitor.collect import digest  # noqa: E402

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
FLOATS += [getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)]
COMPLEX = [torch.complex64, torch.complex128]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool]
KINDS = FLOATS + COMPLEX + INTEGERS
LENGTHS = [0, 1, 2, 3, 7, 9, 64, 1023, 2049, 9000, 70001]
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def number(tensor: Any) -> int:
    """Return the fingerprint of one tensor."""
    pending = digest.fingerprints([tensor])
    assert pending is not None
    assert pending.ready()
    (value,) = pending.values()
    assert isinstance(value, int)
    assert 0 <= value < 1 << 63
    return value


def filled(kind: Any, length: int, seed: int = 0) -> Any:
    """Return a tensor of random bits (of random truth values, for those)."""
    generator = torch.Generator().manual_seed(seed)
    if kind is torch.bool:
        return torch.randint(0, 2, (length,), generator=generator).to(torch.bool)
    raw = torch.randint(0, 256, (length * kind.itemsize,), generator=generator, dtype=torch.uint8)
    return raw.view(kind)


def bits(tensor: Any) -> Any:
    """Return a tensor's elements (of complex ones the components) as integers of their size, in the same memory."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor).view(-1)
    return tensor.view(BITS[tensor.dtype.itemsize])
