"""Memory words: where the bytes of a training step go."""

from __future__ import annotations

from typing import Literal

import msgspec

from preflight.vocabulary.quantity import Interval

Fits = Literal["yes", "no", "unknown"]
Phase = Literal["init", "forward", "backward", "optimizer", "eval", "growth"]
Method = Literal["static", "dry-run", "formula"]
TOTALS = {
    "peak_bytes": "peak (allocated)",
    "reserved_bytes": "reserved by the allocator",
    "device_bytes": "shown by the driver",
}
"""The three totals of an estimate, each with its name for a person."""

PART_OF = {
    "parameter": "model_parameters",
    "buffer": "model_parameters",
    "gradient": "gradients",
    "optimizer state": "optimizer_states",
    "activation": "activations",
    "temporary": "activations",
    "input": "activations",
    "communication": "communication_buffers",
    "workspace": "workspace",
}
"""The part of a breakdown to which what a dry run calls bytes belongs."""


class MemoryBreakdown(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on one GPU at the moment of the peak; the parts add up to the total."""

    model_parameters: float = 0.0
    gradients: float = 0.0
    optimizer_states: float = 0.0
    activations: float = 0.0
    logits_and_loss: float = 0.0
    communication_buffers: float = 0.0
    workspace: float = 0.0
    fragmentation: float = 0.0
    context: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all parts, bytes."""
        total: float = sum(getattr(self, field) for field in self.__struct_fields__)
        return total

    @property
    def allocated(self) -> float:
        """What torch's allocator has handed out: all parts but context and fragmentation, bytes."""
        return self.total - self.context - self.fragmentation


class TimelinePoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Allocated and reserved bytes at the peak of one phase of one step.

    Attributes:
        owners: The allocated bytes by part of the breakdown, where that is known; parts of no bytes are left out.
    """

    step: int
    phase: Phase
    allocated_bytes: float
    reserved_bytes: float
    owners: dict[str, float] = {}


class Oom(msgspec.Struct, frozen=True, kw_only=True):
    """Where memory runs out, with the arithmetic in one line."""

    phase: Phase
    step: int
    arithmetic: str | None = None


class MemoryEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of one GPU over a run.

    Attributes:
        peak_bytes: Peak of what torch's allocator hands out (``max_memory_allocated``).
        reserved_bytes: Peak of what it holds (``max_memory_reserved``).
        device_bytes: What nvidia-smi shows: reserved plus context and communication libraries.
        capacity_bytes: What the device offers, or None when no device was named.
        fits: By ``p_fit`` where the memory is estimated: ``yes`` from 0.8 on, ``no`` up to 0.05, ``unknown`` between, and
            where memory grows and nobody knows for how long; a dry run says what happened.
        p_fit: Probability that the run fits, where it can be given.
        reason: Why the memory is not known.
        assumed: What the figures are for where the script does not tell, an upper bound: "the longest input ...".
        least_bytes: What parameters, gradients and optimizer states alone take, where the peak is not known.
        host_bytes: Bytes of this rank that lie in the host's memory, because they are offloaded.
        how: How each part came about, one line each.
    """

    peak_bytes: Interval | None = None
    reserved_bytes: Interval | None = None
    device_bytes: Interval | None = None
    capacity_bytes: int | None = None
    fits: Fits = "unknown"
    p_fit: float | None = None
    oom: Oom | None = None
    breakdown: MemoryBreakdown | None = None
    timeline: tuple[TimelinePoint, ...] = ()
    method: Method = "static"
    reason: str | None = None
    assumed: str | None = None
    least_bytes: float | None = None
    host_bytes: float = 0.0
    how: tuple[str, ...] = ()
