"""The second version of the transforms: the same, with a few new names."""

from __future__ import annotations

from typing import Any

import torch

from .. import *  # noqa: F403
from .. import Compose, ConvertImageDtype, PILToTensor
from . import functional as functional

ToImage, Transform = PILToTensor, torch.nn.Module


class ToDtype(ConvertImageDtype):
    """Changes the type, and the range with it where that is asked for."""

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        super().__init__(dtype)


__all__ = ["Compose", "ToDtype", "ToImage", "Transform", "functional"]
