"""Triton, as far as launching goes: kernels are not run, what they would read and write is accounted for."""

from __future__ import annotations

import sys
from typing import Any

from preflight.dryrun.virtual.absent.recorders import Inert

from . import language, runtime, testing
from .runtime.autotuner import Autotuner, Config, Heuristics
from .runtime.jit import JITFunction

__version__ = "3.5.0"
sys.modules[__name__].__class__ = Inert  # any other name does nothing


def jit(fn: Any = None, **options: Any) -> Any:
    """Make a function a kernel."""
    return JITFunction(fn) if fn is not None else JITFunction


def autotune(configs: list[Any], key: Any = None, **options: Any) -> Any:
    """Choose the first configuration."""
    return lambda fn: Autotuner(fn, configs)


def heuristics(values: dict[str, Any]) -> Any:
    """Compute arguments from others."""
    return lambda fn: Heuristics(fn, values)


def cdiv(x: int, y: int) -> int:
    """Divide and round up."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """Return the smallest power of two that is not below a number."""
    return 1 << max(0, n - 1).bit_length()


__all__ = [
    "Autotuner",
    "Config",
    "Heuristics",
    "JITFunction",
    "autotune",
    "cdiv",
    "heuristics",
    "jit",
    "language",
    "next_power_of_2",
    "runtime",
    "testing",
]
