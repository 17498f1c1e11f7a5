"""Words for a run that was watched: what was recorded, what was held against it, and how it went."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.trace import TraceGap


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A number of the training over its steps; where there are many, the first, lowest and highest of every so many.

    Attributes:
        name: What it is: ``loss``, ``learning rate``, ``gradient norm``, ``step time``.
        subject: Of what: an optimizer's group, a place in the code; empty where there is one only.
        unit: The unit, or None.
        rank: The rank that told it.
        steps: The steps, ascending.
        values: The values; None where a number is not finite.
    """

    name: str
    subject: str = ""
    unit: str | None = None
    rank: int = 0
    steps: tuple[int, ...] = ()
    values: tuple[float | None, ...] = ()


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """How many examples broke an invariant on a rank, in a step or the few steps from it on."""

    rank: int
    step: int
    count: int


class HeldMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The most memory of a device that a process was seen to hold, as CUDA's allocator counts it.

    Attributes:
        rank: The rank of the process. device: The device, as torch calls it.
        peak_bytes: The most that was handed out at once.
        peak_reserved_bytes: The most that the allocator held at once.
        capacity_bytes: What the device has; None where that is not known.
    """

    rank: int
    device: str
    peak_bytes: int
    peak_reserved_bytes: int | None = None
    capacity_bytes: int | None = None


class NotJudged(msgspec.Struct, frozen=True):
    """A relation that failed for an error of its own; neither this iteration nor any after it was judged by it.

    Attributes:
        relation: Its name.
        rank: The rank; None for a relation that compares ranks.
        iteration: The iteration.
        error: The error, in words.
    """

    relation: str
    rank: int | None
    iteration: int
    error: str


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What was recorded of a run and held against invariants.

    Attributes:
        iterations: Passes through the training loop, of all ranks together.
        steps: The largest number of optimizer steps that a rank had done.
        ranks: The ranks of which something was recorded.
        world_size: How many ranks the run has.
        examples: How often an invariant was judged.
        in_force: How many invariants were held against the run.
        judged: How many of them could be judged at least once.
        not_triggered: The ids of those that could not.
        suppressed_invariants: How many invariants a person has suppressed.
        suppressed_violations: How many alarms they would have given.
        unknown_relations: Relations that invariants name and that this version does not have.
        not_judged: Relations that failed, and from where on.
        marks: Where invariants were broken.
        mark_width: How many steps a mark covers.
        series: Numbers of the training.
        memory: The most that each rank held of a device; empty where nothing ran on one.
        gaps: What is missing in the trace.
    """

    iterations: int = 0
    steps: int = 0
    ranks: tuple[int, ...] = ()
    world_size: int | None = None
    examples: int = 0
    in_force: int = 0
    judged: int = 0
    not_triggered: tuple[str, ...] = ()
    suppressed_invariants: int = 0
    suppressed_violations: int = 0
    unknown_relations: tuple[str, ...] = ()
    not_judged: tuple[NotJudged, ...] = ()
    marks: tuple[Mark, ...] = ()
    mark_width: int = 1
    series: tuple[Series, ...] = ()
    memory: tuple[HeldMemory, ...] = ()
    gaps: tuple[TraceGap, ...] = ()
