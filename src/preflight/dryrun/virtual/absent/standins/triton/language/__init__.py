"""The language of kernels, which are never run: names that can be written down, and constants that can be read."""

from __future__ import annotations

import sys
from typing import Any

from preflight.dryrun.virtual.absent.recorders import Inert

sys.modules[__name__].__class__ = Inert


class constexpr:
    """A constant of a kernel.

    Args:
        value: What it is.
    """

    def __init__(self, value: Any) -> None:
        self.value = getattr(value, "value", value)

    def __index__(self) -> int:
        return int(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)
