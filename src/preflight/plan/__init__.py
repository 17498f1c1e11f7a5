"""Plan: memory, time and money of every way to spread a model over a cluster, and the best one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from preflight.plan.api import MemoryAnalyzer, create_cluster_spec, create_distribution_strategy, make_plan

__all__ = ["MemoryAnalyzer", "create_cluster_spec", "create_distribution_strategy", "make_plan"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'preflight.plan' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("preflight.plan.api"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
