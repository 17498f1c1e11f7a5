"""Words for what was measured by running a dry run again with something changed."""

from __future__ import annotations

import msgspec


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A dry run with changes.

    Attributes:
        keys: The changes, each by its short name: ``recompute``.
        change: The changes, in words that say what to do.
        applied: Whether every change found something to change and the run got through two optimizer steps.
        fits: Whether it ran within the GPU's memory; None where it was not applied.
        peak_bytes: The highest number of bytes in blocks. reserved_bytes: The same of segments.
        batch: Rows of a batch in it, where that is known.
        side_effect: What the changes cost.
        done: What was really done, in words, with how often.
        reason: Why it was not applied.
    """

    keys: tuple[str, ...]
    change: str
    applied: bool = False
    fits: bool | None = None
    peak_bytes: int | None = None
    reserved_bytes: int | None = None
    batch: int | None = None
    side_effect: str | None = None
    done: dict[str, int] = {}
    reason: str | None = None


class BatchPoint(msgspec.Struct, frozen=True):
    """A batch that was run: rows, bytes in blocks and in segments at the peak, and whether it fits."""

    batch: int
    peak_bytes: int
    reserved_bytes: int
    fits: bool


class LargestBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The largest batch that fits, with both sides run.

    Attributes:
        before: The batch of the script.
        batch: The largest that fits; 0 where not even one row does; None where it is not known.
        next: The smallest that was seen not to fit; None where none was.
        points: The batches that were run, the smallest first.
        place: ``file:line`` of the number, or the option of the command line, where that is known.
        how: By what the batch was changed: ``constant``, ``argument``, ``loader``, ``rows``.
        reason: Why it is not known, or not closer.
    """

    before: int | None = None
    batch: int | None = None
    next: int | None = None
    points: tuple[BatchPoint, ...] = ()
    place: str | None = None
    how: str | None = None
    reason: str | None = None


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What would make a run fit, or what would save memory: every number from a run of its own.

    Attributes:
        capacity_bytes: What PyTorch can take of the GPU.
        peak_bytes: The peak of the script as it is. reserved_bytes: The same of segments.
        fits: Whether it fits as it is.
        trials: Single changes, and the least of them together that fits where no single one does.
        largest_batch: The largest batch.
        runs: How many runs were made. seconds: How long they took.
        left_out: What the time did not suffice for.
    """

    capacity_bytes: int
    peak_bytes: int
    reserved_bytes: int
    fits: bool
    trials: tuple[Trial, ...] = ()
    largest_batch: LargestBatch | None = None
    runs: int = 0
    seconds: float = 0.0
    left_out: tuple[str, ...] = ()
