"""What training scripts use of torchvision, where it is not installed: sizes and types are right, pictures are not."""

from __future__ import annotations

from . import datasets, io, models, ops, transforms, utils

__version__ = "0.0.0"
__all__ = ["datasets", "io", "models", "ops", "set_image_backend", "transforms", "utils"]


def set_image_backend(name: str) -> None:
    """Any backend is as good."""
