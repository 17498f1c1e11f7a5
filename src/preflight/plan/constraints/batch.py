"""The batch is divided over data-parallel ranks and micro-batches.

Every data-parallel rank takes the same number of samples in a step, in micro-batches of the same size.
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout, nearest_divisor

CONSTRAINT = Constraint(
    name="batch-not-divisible", sentence="micro_batch x data-parallel ranks divides the global batch"
)

GOOD = (
    Example(run={"global_batch": 64, "micro_batch": 2}, parallel={"dp_shard": 8}),
    Example(run={"global_batch": 1536, "micro_batch": 3}, parallel={"dp_replicate": 64}),
    Example(run={"global_batch": None, "micro_batch": 3}, parallel={"dp_replicate": 5}),
)
BAD = (
    Example(run={"global_batch": 64, "micro_batch": 1}, parallel={"dp_shard": 3}),
    Example(run={"global_batch": 64, "micro_batch": 16}, parallel={"dp_shard": 8}),
    Example(run={"global_batch": 48, "micro_batch": 5}, parallel={"dp_replicate": 2}),
)


def holds(layout: Layout) -> Any:
    """Return whether every rank takes whole micro-batches."""
    run = layout.run
    size = run.micro_batch if run.micro_batch is not None else 1
    return layout.data >= 1 if run.global_batch is None else run.global_batch % (layout.data * size) == 0


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    ranks, run = int(layout.data), layout.run
    batch = int(run.global_batch or 0)
    if batch % ranks:
        return f"a global batch of {batch} cannot be divided over {ranks} data-parallel ranks"
    return f"micro_batch {int(run.micro_batch or 1)} does not divide the {batch // ranks} samples of a rank"


def hint(layout: Layout) -> str | None:
    """Return the nearest batch that can be divided."""
    ranks, run = int(layout.data), layout.run
    batch = int(run.global_batch or 0)
    if batch % ranks:
        return f"{-(-batch // ranks) * ranks} can"
    return f"{nearest_divisor(batch // ranks, run.micro_batch or 1)} does"
