"""What training scripts use of apex: fused optimizers and norms, wrappers, in PyTorch's own form."""

from __future__ import annotations

from . import amp, normalization, optimizers, parallel

__all__ = ["amp", "normalization", "optimizers", "parallel"]
