"""Plan words: candidates, what they cost, and how long they take."""

from __future__ import annotations

from typing import Literal

import msgspec

from preflight.vocabulary.memory import Fits, MemoryBreakdown, MemoryEstimate
from preflight.vocabulary.model import ModelSpec
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
        regime: What the interval rests on: the catalog alone, a calibration, or an extrapolation beyond one.
    """

    seconds: Interval
    tokens_per_second_per_gpu: float | None = None
    samples_per_second: float | None = None
    model_tflops_per_gpu: float | None = None
    mfu: float | None = None
    breakdown: StepBreakdown | None = None
    bottleneck: str | None = None
    regime: str | None = None
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
    """One way to spread a run, with what it needs.

    Attributes:
        chance: How often it is the quickest, over what is not known of hardware and software; None for a single layout.
    """

    parallel: ParallelDims
    run: RunSpec
    memory: MemoryEstimate
    stages: tuple[StageMemory, ...] = ()
    step: StepEstimate | None = None
    cost: Cost | None = None
    chance: float | None = None


def same_layout(one: Candidate) -> tuple[ParallelDims, RunSpec]:
    """Return what tells a candidate from others: its layout and run, without what was worked out for it."""
    return (one.parallel, one.run)


class Point(msgspec.Struct, frozen=True):
    """A layout as a point: seconds of a step, bytes on the fullest device, and the samples of a step."""

    step_seconds: float
    device_bytes: float
    global_batch: int = 1


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A layout that was ruled out, and why; ``count`` of them for the same reason."""

    parallel: ParallelDims
    reason: str
    count: int = 1


class ScalingPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One number of GPUs on a scaling curve.

    Attributes:
        efficiency: Throughput per GPU over that of the curve's first point.
        communication_share: Exposed communication over the step.
        device_bytes: Memory of the fullest GPU. fits: Whether it fits, by that value.
    """

    gpus: int
    global_batch: int
    step_seconds: float
    samples_per_second: float
    efficiency: float
    communication_share: float
    device_bytes: float
    fits: bool


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """How well the run uses many GPUs.

    Attributes:
        efficiency: Throughput per GPU over that of the smallest number of GPUs on the strong curve.
        communication_share: Exposed communication over the step.
        basis: What ``efficiency`` is compared with.
        strong: The same global batch on fewer and more GPUs.
        weak: A global batch that grows with the GPUs.
    """

    efficiency: float | None = None
    communication_share: float | None = None
    basis: str | None = None
    strong: tuple[ScalingPoint, ...] = ()
    weak: tuple[ScalingPoint, ...] = ()


class BatchLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The largest batch that fits: samples of a forward pass, of a step, and the micro-batches of a step.

    Zero samples where not even one fits.
    """

    micro_batch: int
    global_batch: int
    micro_batches: int


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate of the machine.

    Attributes:
        promised: What the data sheet says. used: What the plan counts on.
        moved_bytes: What a GPU sends over it in a step, by axis; between nodes, what each network card carries.
    """

    name: str
    promised: float
    used: float
    unit: str
    moved_bytes: dict[str, float] = {}


class AttentionMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Device memory of the fullest GPU with flash attention, and with the matrix of scores written out."""

    kind: str
    flash_bytes: float
    written_bytes: float
    flash_fits: Fits
    written_fits: Fits


class PipelineSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of work on a stage: ``F`` forward, ``B`` backward, ``W`` gradients of weights; seconds from the start."""

    stage: int
    kind: str
    micro: int
    chunk: int
    start: float
    end: float


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """The pipeline of a step, simulated event by event.

    Attributes:
        schedule: ``1f1b`` or ``interleaved``.
        seconds: All micro-batches, forward and backward.
        bubble: The share of that in which the busiest stage waits.
        micro_batches: How many there are. shown_micro_batches: Those of ``spans``, which are of a run with so many.
    """

    schedule: str
    seconds: float
    bubble: float
    micro_batches: int
    shown_micro_batches: int
    spans: tuple[PipelineSpan, ...] = ()


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the time trains.

    Attributes:
        share: Of the wall time, 0 to 1.
        checkpoint_interval_seconds: The time between two checkpoints: as asked for, else the best.
        best_interval_seconds: The time that loses least.
        checkpoint_seconds: How long one takes.
        seconds_between_failures: Of the whole cluster, on average.
        basis: What all this rests on.
    """

    share: float
    checkpoint_interval_seconds: float
    checkpoint_seconds: float
    seconds_between_failures: float
    basis: str
    best_interval_seconds: float | None = None


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """What one change would do to the chosen layout.

    Attributes:
        key: A short name of the change. change: What to do, from and to.
        step_change: Relative change of the step: -0.11 is 11 % less. None where the step is not known.
        device_bytes_change: Bytes more (or less) on the fullest GPU.
        fits: Whether it fits then.
        text: All of it in one line.
    """

    key: str
    change: str
    step_change: float | None
    device_bytes_change: float
    fits: Fits
    text: str
    side_effect: str | None = None


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """What a step depends on, and the share of it that stands or falls with that (its elasticity)."""

    name: str
    share: float


class Bottleneck(msgspec.Struct, frozen=True, kw_only=True):
    """Something that holds a run back, in words and numbers.

    Attributes:
        of: ``time``, a part of the step; ``rate``, what the step depends on; ``memory``, a part of the fullest GPU.
        name: What it is: ``exposed communication``, ``matrix products``, ``activations``.
        share: Of the step or of the memory; of a rate, its elasticity.
        text: How much it is, or what a better rate would do.
        change: The change that makes most of it go away, with what that does; None where none was found.
    """

    of: Literal["time", "rate", "memory"]
    name: str
    share: float
    text: str
    change: str | None = None


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The same request on one of several clusters.

    Attributes:
        cluster: What it is: ``8 x NVIDIA H100 SXM5 80GB``.
        gpus: How many.
        candidate: The layout with its memory and step; None where there is none.
        reason: Why there is none.
    """

    cluster: str
    gpus: int
    candidate: Candidate | None = None
    duration: Duration | None = None
    cost: Cost | None = None
    reason: str | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan answers.

    Attributes:
        chosen: The layout that was asked for, or the best one.
        candidates: Those worth looking at, the quickest first.
        pareto: Those that no other beats in time, headroom, money and energy together.
        rejected: Layouts that were ruled out, by reason.
        cloud: A sample of the quick ones that fit, evenly over their times, for a picture.
        searched: How many were evaluated. seconds: How long that took.
        assumptions: What was not said and is taken for granted.
        goodput: How much of the time trains, with failures and checkpoints.
        rates: What GPU and links promise, and what is counted on.
        pipeline: The pipeline, simulated, where there is one.
        attention: Memory with and without the matrix of scores.
        largest_batch: The largest batch that fits, where it was asked for.
        settings: Files or command lines that run the chosen layout, by framework.
        settings_reasons: Of frameworks that cannot run it, why.
        sensitivities: What single changes of the chosen layout would do.
        drivers: What its step depends on, the strongest first.
        bottlenecks: What holds it back, where that was asked for: parts of the step, rates, parts of the memory.
        experiment: The cheapest run that would tell candidates apart whose intervals overlap.
        regret: By how much the chosen layout is slower than the quickest, on average over what is not known, as a share.
        compared: The same request on several clusters, as they were named.
        model: The architecture that it is for, in numbers; without the blocks of a network that has no such numbers.
    """

    model: ModelSpec | None = None
    chosen: Candidate | None = None
    candidates: tuple[Candidate, ...] = ()
    pareto: tuple[Candidate, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    cloud: tuple[Point, ...] = ()
    searched: int = 0
    seconds: float | None = None
    cost: Cost | None = None
    duration: Duration | None = None
    scaling: Scaling | None = None
    goodput: Goodput | None = None
    rates: tuple[Rate, ...] = ()
    pipeline: Pipeline | None = None
    attention: AttentionMemory | None = None
    largest_batch: BatchLimit | None = None
    settings: dict[str, str] = {}
    settings_reasons: dict[str, str] = {}
    experiment: str | None = None
    regret: float | None = None
    sensitivities: tuple[Sensitivity, ...] = ()
    drivers: tuple[Driver, ...] = ()
    bottlenecks: tuple[Bottleneck, ...] = ()
    compared: tuple[Compared, ...] = ()
    assumptions: tuple[str, ...] = ()
