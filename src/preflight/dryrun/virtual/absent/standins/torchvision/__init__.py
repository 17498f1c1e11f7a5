"""What training scripts use of torchvision, where it is not installed: sizes and types are right, pictures are not."""

from __future__ import annotations

import contextlib

import torch

from . import datasets, io, models, ops, transforms, utils

# Scripts find PIL.Image by way of torchvision, which imports it.
with contextlib.suppress(ImportError):
    import PIL.Image as PIL_Image  # noqa: F401

# Releases go with those of PyTorch: 0.15 with 2.0, one more with each.
__version__ = f"0.{15 + int(torch.__version__.split('.')[1])}.0"
__all__ = ["datasets", "io", "models", "ops", "set_image_backend", "transforms", "utils"]


def set_image_backend(name: str) -> None:
    """Any backend is as good."""


def _is_tracing() -> bool:
    """Whether a graph of TorchScript is being traced."""
    return bool(torch.jit.is_tracing())
