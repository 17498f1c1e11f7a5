"""Collectives of PyTorch."""

from __future__ import annotations

from torch.distributed import *  # noqa: F403
