"""Counts, which are not made."""

from __future__ import annotations

from typing import Any

from preflight.dryrun.virtual.absent.recorders import Recorder


def flop_count(*_: Any, **__: Any) -> Any:
    """Count nothing."""
    return Recorder("flop_count")


def flop_count_table(*_: Any, **__: Any) -> str:
    """Count nothing."""
    return ""
