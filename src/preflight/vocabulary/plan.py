"""Plan words: candidates, what they cost, and how long they take."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.memory import MemoryBreakdown, MemoryEstimate
from preflight.vocabulary.quantity import Interval
from preflight.vocabulary.run import ParallelDims, RunSpec
from preflight.vocabulary.step import StepBreakdown


class StageMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of one pipeline stage.

    Attributes:
        stage: Its index, from 0.
        layers: Blocks on it.
        in_flight: Micro-batches whose activations it holds at once.
        allocated_bytes: Peak of what torch's allocator hands out.
        device_bytes: What the driver shows, mid value.
        breakdown: The parts at the peak.
    """

    stage: int
    layers: float
    in_flight: float
    allocated_bytes: float
    device_bytes: float
    breakdown: MemoryBreakdown


class StepEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The time of an optimizer step.

    Attributes:
        seconds: Its length, as an interval.
        tokens_per_second_per_gpu: None where samples have no tokens.
        model_tflops_per_gpu: FLOP of the model (causal attention counted once, nothing recomputed) per second, in 1e12.
        mfu: The same over the peak of the GPU in the type that the run computes in.
        breakdown: Where the seconds go.
        bottleneck: What holds the step back most, in words.
    """

    seconds: Interval
    tokens_per_second_per_gpu: float | None = None
    samples_per_second: float | None = None
    model_tflops_per_gpu: float | None = None
    mfu: float | None = None
    breakdown: StepBreakdown | None = None
    bottleneck: str | None = None
    reason: str | None = None


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a run costs: GPU-hours, a range of money with the day its prices were read, energy."""

    gpu_hours: float | None = None
    usd: Interval | None = None
    price_date: str | None = None
    kwh: float | None = None
    reason: str | None = None


class Duration(msgspec.Struct, frozen=True, kw_only=True):
    """How long a run takes: optimizer steps, tokens, seconds (an interval), and what they come from."""

    steps: int | None = None
    tokens: float | None = None
    seconds: Interval | None = None
    reason: str | None = None


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One way to spread a run, with what it needs."""

    parallel: ParallelDims
    run: RunSpec
    memory: MemoryEstimate
    stages: tuple[StageMemory, ...] = ()
    step: StepEstimate | None = None
    cost: Cost | None = None


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A layout that was ruled out, and why; ``count`` of them for the same reason."""

    parallel: ParallelDims
    reason: str
    count: int = 1


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """How well the run uses many GPUs.

    Attributes:
        efficiency: Throughput per GPU over that of the smallest layout of the same model that fits, 0 to 1.
        communication_share: Exposed communication over the step.
        basis: What ``efficiency`` is compared with.
    """

    efficiency: float | None = None
    communication_share: float | None = None
    basis: str | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan answers.

    Attributes:
        chosen: The layout that was asked for, or the best one.
        candidates: Those worth looking at, the quickest first.
        pareto: Those that no other beats in time, headroom, money and energy together.
        rejected: Layouts that were ruled out, by reason.
        searched: How many were evaluated. seconds: How long that took.
        assumptions: What was not said and is taken for granted.
        settings: Files or command lines that run the chosen layout, by framework.
        experiment: The cheapest run that would tell candidates apart whose intervals overlap.
    """

    chosen: Candidate | None = None
    candidates: tuple[Candidate, ...] = ()
    pareto: tuple[Candidate, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    searched: int = 0
    seconds: float | None = None
    cost: Cost | None = None
    duration: Duration | None = None
    scaling: Scaling | None = None
    settings: dict[str, str] = {}
    experiment: str | None = None
    assumptions: tuple[str, ...] = ()
