"""Initialisation, and counts of operations, which are not made."""

from __future__ import annotations

from typing import Any

from preflight.dryrun.virtual.absent.recorders import Recorder

from . import weight_init

__all__ = ["weight_init"]
_COUNTS = ("flop_count", "activation_count", "parameter_count", "FlopCountAnalysis", "ActivationCountAnalysis")


def __getattr__(name: str) -> Any:
    if name.startswith(_COUNTS):
        return Recorder(f"fvcore.nn.{name}")
    raise AttributeError(f"module 'fvcore.nn' has no attribute {name!r}")
