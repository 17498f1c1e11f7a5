"""Which GPU kernels are compiled for."""

from __future__ import annotations

from typing import Any, NamedTuple


class GPUTarget(NamedTuple):
    """A GPU: its maker's interface, its architecture, and the threads of a warp."""

    backend: str
    arch: Any
    warp_size: int
