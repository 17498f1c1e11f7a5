"""Preflight: will this training script train, and will it train well?

``analyze("train.py")`` and ``make_plan("llama-3-8b", 64, gpus=8)`` answer with a report; the words it is made of are here too. Everything is loaded when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.vocabulary.version import VERSION as __version__

if TYPE_CHECKING:
    from preflight.check.api import TrainingPreflightAnalyzer, analyze
    from preflight.errors import PreflightError
    from preflight.investigate.diagnose import diagnose
    from preflight.investigate.events.logger import EventLogger
    from preflight.monitor.api import check_trace, monitoring
    from preflight.monitor.learn.infer import infer_invariants
    from preflight.monitor.live.resume import resume
    from preflight.plan.api import MemoryAnalyzer, create_cluster_spec, create_distribution_strategy, make_plan
    from preflight.vocabulary.finding import Edit, Evidence, Finding, Fix, Location
    from preflight.vocabulary.hardware import Gpu
    from preflight.vocabulary.memory import MemoryBreakdown, MemoryEstimate
    from preflight.vocabulary.model import ModelSpec
    from preflight.vocabulary.report import Report
    from preflight.vocabulary.run import ParallelDims, RunSpec

_HOMES = {
    "analyze": "preflight.check.api",
    "EventLogger": "preflight.investigate.events.logger",
    "TrainingPreflightAnalyzer": "preflight.check.api",
    "MemoryAnalyzer": "preflight.plan.api",
    "create_cluster_spec": "preflight.plan.api",
    "create_distribution_strategy": "preflight.plan.api",
    "make_plan": "preflight.plan.api",
    "diagnose": "preflight.investigate.diagnose",
    "infer_invariants": "preflight.monitor.learn.infer",
    "check_trace": "preflight.monitor.api",
    "monitoring": "preflight.monitor.api",
    "resume": "preflight.monitor.live.resume",
    "PreflightError": "preflight.errors",
    "Edit": "preflight.vocabulary.finding",
    "Evidence": "preflight.vocabulary.finding",
    "Finding": "preflight.vocabulary.finding",
    "Fix": "preflight.vocabulary.finding",
    "Location": "preflight.vocabulary.finding",
    "Gpu": "preflight.vocabulary.hardware",
    "MemoryBreakdown": "preflight.vocabulary.memory",
    "MemoryEstimate": "preflight.vocabulary.memory",
    "ModelSpec": "preflight.vocabulary.model",
    "ParallelDims": "preflight.vocabulary.run",
    "RunSpec": "preflight.vocabulary.run",
    "Report": "preflight.vocabulary.report",
}

__all__ = [
    "Edit",
    "EventLogger",
    "Evidence",
    "Finding",
    "Fix",
    "Gpu",
    "Location",
    "MemoryAnalyzer",
    "MemoryBreakdown",
    "MemoryEstimate",
    "ModelSpec",
    "ParallelDims",
    "PreflightError",
    "Report",
    "RunSpec",
    "TrainingPreflightAnalyzer",
    "__version__",
    "analyze",
    "check_trace",
    "create_cluster_spec",
    "create_distribution_strategy",
    "diagnose",
    "infer_invariants",
    "make_plan",
    "monitoring",
    "resume",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'preflight' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
