"""Data that stands in for what is missing, with numbers that are worth a probe: noise where the dry run takes zeros."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from preflight.dryrun.virtual.absent import after

HIGHEST = 48
"""Tokens below this are in every vocabulary of characters, and in every larger one."""
_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_PROBE = os.path.join(_OURS, "probe", "")
_PICTURES = ("picture", "to_pil_image")
"""Functions of the stand-ins that make a picture to be looked at, not one of classes."""


def install() -> None:
    """Fill arrays, tensors and pictures of the stand-ins with noise."""
    after.imported("numpy", _arrays)
    after.imported("PIL.Image", _pictures)
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


def _standing_in() -> bool:
    """Whether the caller of the caller is one of the stand-ins."""
    file = sys._getframe(2).f_code.co_filename
    return file.startswith(_OURS) and not file.startswith(_PROBE)


def _arrays(numpy: Any) -> None:
    plain = numpy.zeros

    def zeros(*args: Any, **kwargs: Any) -> Any:
        made = plain(*args, **kwargs)
        if not _standing_in():
            return made
        draw = numpy.random.default_rng(0)
        if made.dtype == numpy.uint8 and made.ndim > 1:
            made[...] = draw.integers(0, 256, made.shape, dtype=made.dtype)
        elif made.dtype.kind in "iu":
            made[...] = draw.integers(0, HIGHEST, made.shape, dtype=made.dtype)
        elif made.dtype.kind == "f":
            made[...] = draw.standard_normal(made.shape, dtype=numpy.float32)
        return made

    numpy.zeros = zeros


def _pictures(image: Any) -> None:
    plain = image.new

    def new(mode: str, size: Any, color: Any = 0) -> Any:
        caller = sys._getframe(1).f_code
        # A picture of one channel is one of classes, unless it is made to be looked at.
        looked_at = mode == "RGB" or (mode == "L" and caller.co_name in _PICTURES)
        if color == 0 and looked_at and caller.co_filename.startswith(_OURS):
            parts = [image.effect_noise(tuple(size), 64) for _ in mode]
            return parts[0] if len(parts) == 1 else image.merge(mode, parts)
        return plain(mode, size, color)

    image.new = new
