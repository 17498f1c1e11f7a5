"""What ``MemoryAnalyzer`` answers: the figures of a report by the names that programs ask for, in GB and hours."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.plan import Candidate
from preflight.vocabulary.report import Recommendation, Report

_GB, _GIB, _HOUR, _DAY = 1e9, 2.0**30, 3600.0, 86400.0
Figures = dict[str, "float | str | None"]


class MemoryFigures:
    """Memory of one GPU, as the driver shows it: parts and their sum, in GB of 10^9 bytes.

    Every part of the breakdown is there with ``_gb`` behind it: ``model_parameters_gb``, ``activations_gb`` ...
    """

    def __init__(self, memory: MemoryEstimate) -> None:
        """Keep the estimate."""
        self.estimate = memory

    def __getattr__(self, name: str) -> float:
        if name == "estimate":  # a copy that is being made has none yet
            raise AttributeError(name)
        parts = self.estimate.breakdown
        if parts is not None and name.endswith("_gb") and name[:-3] in parts.__struct_fields__:
            return float(getattr(parts, name[:-3])) / _GB
        raise AttributeError(f"memory has no {name!r}")

    @property
    def total_memory_gb(self) -> float:
        """The sum of all parts, context and fragmentation included; not a number where memory is not known."""
        parts = self.estimate.breakdown
        return parts.total / _GB if parts is not None else float("nan")

    @property
    def total_memory_gib(self) -> float:
        """The same in GiB of 2^30 bytes."""
        return self.total_memory_gb * _GB / _GIB

    @property
    def capacity_gb(self) -> float | None:
        """What the GPU has, as its driver reports it."""
        capacity = self.estimate.capacity_bytes
        return capacity / _GB if capacity is not None else None

    @property
    def fits(self) -> str:
        """``yes``, ``no`` or ``unknown``."""
        return self.estimate.fits

    @property
    def p_fit(self) -> float | None:
        """The probability that it fits."""
        return self.estimate.p_fit

    @property
    def reason(self) -> str | None:
        """Why the memory is not known."""
        return self.estimate.reason


class TrainingEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The time of the whole run; None, with a reason, where it is not known.

    Attributes:
        total_hours: Its length. low_hours, high_hours: The interval.
        steps: Optimizer steps. tokens: Tokens that are trained on.
        step_seconds: One step.
        tokens_per_second: Over all GPUs.
        reason: What the budget is, or why something is not known.
    """

    total_hours: float | None = None
    low_hours: float | None = None
    high_hours: float | None = None
    steps: int | None = None
    tokens: float | None = None
    step_seconds: float | None = None
    tokens_per_second: float | None = None
    reason: str | None = None

    @property
    def total_days(self) -> float | None:
        """The same in days."""
        return self.total_hours * _HOUR / _DAY if self.total_hours is not None else None


class AnalysisResult(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a report; ``report`` has everything."""

    report: Report
    num_gpus: int

    @property
    def chosen(self) -> Candidate:
        """The layout with its memory, stages and step."""
        plan = self.report.plan
        assert plan is not None
        assert plan.chosen is not None
        return plan.chosen

    @property
    def memory_breakdown(self) -> MemoryFigures:
        """Memory of the fullest GPU."""
        return MemoryFigures(self.chosen.memory)

    @property
    def distributed_memory(self) -> dict[str, MemoryFigures]:
        """The same by the name that runs on several GPUs ask for: ``memory_per_gpu``."""
        return {"memory_per_gpu": self.memory_breakdown}

    @property
    def training_estimate(self) -> TrainingEstimate:
        """Steps, tokens and hours of the run."""
        plan, step = self.report.plan, self.chosen.step
        duration = plan.duration if plan is not None else None
        rate = step.tokens_per_second_per_gpu if step is not None else None
        found = TrainingEstimate(
            step_seconds=step.seconds.mid if step is not None else None,
            tokens_per_second=rate * self.num_gpus if rate is not None else None,
            reason="no budget and no step are known",
        )
        if duration is None:
            return found
        seconds = duration.seconds
        return msgspec.structs.replace(
            found,
            total_hours=seconds.mid / _HOUR if seconds is not None else None,
            low_hours=seconds.low / _HOUR if seconds is not None else None,
            high_hours=seconds.high / _HOUR if seconds is not None else None,
            steps=duration.steps,
            tokens=duration.tokens,
            reason=duration.reason,
        )

    @property
    def scaling_analysis(self) -> Figures:
        """How well many GPUs are used: ``efficiency_percent``, ``communication_percent``, ``bubble_percent``, ``basis``.

        Where the layout fits on fewer GPUs, efficiency is the throughput per GPU over theirs; elsewhere it is the share of
        the step that is neither communication nor waiting for other stages.
        """
        plan, step = self.report.plan, self.chosen.step
        scaling = plan.scaling if plan is not None else None
        spent = step.breakdown if step is not None else None
        if spent is None:
            return {"efficiency_percent": None, "communication_percent": None, "bubble_percent": None, "basis": None}
        communication, bubble = spent.exposed_communication / spent.total, spent.bubble / spent.total
        efficiency, basis = 1 - communication - bubble, "the share of the step that is neither communication nor bubble"
        if scaling is not None and scaling.efficiency is not None:
            efficiency, basis = scaling.efficiency, scaling.basis or basis
        return {
            "efficiency_percent": 100 * efficiency,
            "communication_percent": 100 * communication,
            "bubble_percent": 100 * bubble,
            "basis": basis,
        }

    @property
    def bottleneck(self) -> str | None:
        """What holds the step back most, in words."""
        return self.chosen.step.bottleneck if self.chosen.step is not None else None

    @property
    def recommendations(self) -> tuple[Recommendation, ...]:
        """What to change, with the effect in numbers."""
        return self.report.recommendations
