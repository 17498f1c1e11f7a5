"""Data that stands in for what is missing, with numbers that are worth a probe: noise where the dry run takes zeros."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from preflight.dryrun.virtual import after, data

HIGHEST = 48
"""Tokens below this are in every vocabulary of characters, and in every larger one."""
_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_PICTURES = ("picture", "to_pil_image", "opened")
"""Functions of the stand-ins that make a picture to be looked at, not one of classes."""


def install() -> None:
    """Fill arrays, tensors and pictures of the stand-ins with noise."""
    zeros = data._Stand.zeros

    def noise(stand: Any, numpy: Any, file: Any, dtype: Any, shape: Any) -> Any:
        made = zeros(stand, numpy, file, dtype, shape)
        draw = numpy.random.default_rng(0)
        if made.dtype.kind in "iu":
            made[...] = draw.integers(0, HIGHEST, made.shape, dtype=made.dtype)
        elif made.dtype.kind == "f":
            made[...] = draw.standard_normal(made.shape, dtype=numpy.float32)
        return made

    data._Stand.zeros = noise  # type: ignore[method-assign, assignment]
    plain = torch.zeros

    def made(*args: Any, **kwargs: Any) -> Any:
        tensor = plain(*args, **kwargs)
        # A single class stays: how many there are is not known here. More dimensions are tokens, or bytes of a picture.
        if tensor.dim() > 1 and _standing_in():
            if tensor.dtype == torch.uint8:
                return tensor.random_(0, 256)
            if tensor.dtype == torch.int64:
                return tensor.random_(0, HIGHEST)
        return tensor

    torch.zeros = made
    after.imported("PIL.Image", _pictures)


def _standing_in() -> bool:
    """Whether the caller of the caller is one of the stand-ins."""
    file = sys._getframe(2).f_code.co_filename
    return file.startswith((os.path.join(_OURS, "standins", ""), os.path.join(_OURS, "batches.py")))


def _pictures(image: Any) -> None:
    plain = image.new

    def new(mode: str, size: Any, color: Any = 0) -> Any:
        caller = sys._getframe(1).f_code
        if color == 0 and caller.co_filename.startswith(_OURS) and caller.co_name in _PICTURES and mode in ("L", "RGB"):
            parts = [image.effect_noise(tuple(size), 64) for _ in mode]
            return parts[0] if len(parts) == 1 else image.merge(mode, parts)
        return plain(mode, size, color)

    image.new = new
