"""What is to be planned: a model, a run, a cluster, and how it is to be spread."""

from __future__ import annotations

import msgspec

from preflight.cost.machine import Coefficients
from preflight.plan.calibration.record import Calibration
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec, Schedule


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is to be spread, as far as it was said. A degree that was not said is None.

    Attributes:
        strategy: ``data_parallel``, ``tensor_parallel``, ``pipeline_parallel``, ``hybrid``, ``fsdp``, ``zero1``, ``zero2``,
            ``zero3``, ``hsdp`` or ``auto``; None when nothing was said.
        shard_size: Ranks of one sharding group (HSDP).
        framework: Who spreads it: ``ddp``, ``fsdp2``, ``deepspeed``, ``megatron``.
        schedule, reshard, first_layers, last_layers: As of ``ParallelDims``; its own defaults where they were not said.
        expert_tensor_parallel: Tensor-parallel degree of the experts.
    """

    strategy: str | None = None
    data_parallel: int | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    virtual_pipeline: int | None = None
    context_parallel: int | None = None
    expert_parallel: int | None = None
    sequence_parallel: bool | None = None
    zero_stage: int | None = None
    shard_size: int | None = None
    framework: str | None = None
    schedule: Schedule | None = None
    reshard: bool | None = None
    first_layers: int | None = None
    last_layers: int | None = None
    expert_tensor_parallel: int | None = None


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a dry run of a script on one GPU saw of a micro-batch: the constants of a network that no formula knows.

    Attributes:
        micro_batch: Its samples.
        compute: Seconds of the kernels of forward and backward pass. host: Seconds that the GPU waited for the host.
        gpu: The GPU that the seconds are for.
    """

    micro_batch: int
    compute: float
    host: float
    gpu: str


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a plan is made from.

    Attributes:
        model: The architecture.
        run: Batch, length, precision, optimizer. ``micro_batch`` is None where the plan is to choose it.
        cluster: The GPUs.
        wish: How it is to be spread.
        parallel: How it is spread, once that is decided.
        tokens: Tokens to train on, for duration and cost. steps: Optimizer steps instead.
        checkpoint_steps: Optimizer steps between two checkpoints; None where the best interval is taken.
        storage_gb_per_s: What storage takes from all nodes together; None for the usual.
        assumptions: What was not said and is taken for granted, one sentence each.
        notes: Remarks on what was said.
        inputs: What was given, for the report.
        search: Whether the plan is to find the layout itself.
        fixed: Fields of ``run`` that were said, which a search leaves as they are.
        bottlenecks: Whether to say what holds the run back, and what to change.
        max_batch_size: Whether to look for the largest batch that fits.
        basic: Whether memory alone is asked for.
        measured: What a dry run saw, where there was one.
        calibration: Coefficients that measured steps gave, where there are some.
    """

    model: ModelSpec
    run: RunSpec
    cluster: Cluster
    wish: Wish = Wish()
    parallel: ParallelDims | None = None
    tokens: float | None = None
    steps: int | None = None
    checkpoint_steps: int | None = None
    storage_gb_per_s: float | None = None
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    inputs: dict[str, object] = {}
    search: bool = False
    fixed: frozenset[str] = frozenset()
    bottlenecks: bool = False
    max_batch_size: bool = False
    basic: bool = False
    measured: Measured | None = None
    calibration: Calibration | None = None

    @property
    def coefficients(self) -> Coefficients | None:
        """What is to be calculated with: those of the calibration, or None for the catalog's."""
        return self.calibration.coefficients if self.calibration is not None else None
