"""What training scripts use of apex: fused optimizers and norms, in PyTorch's own form."""

from __future__ import annotations

from . import normalization, optimizers

__all__ = ["normalization", "optimizers"]
