"""The class of all data sets."""

from __future__ import annotations

from . import VisionDataset

__all__ = ["VisionDataset"]
