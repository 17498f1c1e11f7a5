"""A parallel cross entropy needs a divided vocabulary.

Every tensor-parallel rank takes the loss over its own part of the vocabulary. With one rank it is the plain loss.
Megatron-LM has a kernel of its own for it, which saves a copy of the logits at any degree.
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout

CONSTRAINT = Constraint(
    name="parallel-loss-of-one-rank",
    sentence="outside Megatron-LM, cross_entropy: parallel needs tensor_parallel above 1",
    kind="unwise",
    looks_at="run",
)

GOOD = (
    Example(run={"cross_entropy": "parallel"}, parallel={"tp": 2}),
    Example(run={"cross_entropy": "parallel", "stack": "megatron"}, parallel={"tp": 1}),
    Example(run={"cross_entropy": "fused"}, parallel={"tp": 1}),
)
BAD = (
    Example(run={"cross_entropy": "parallel"}, parallel={"dp_shard": 8}),
    Example(run={"cross_entropy": "parallel", "stack": "compile"}, parallel={"cp": 2}),
    Example(run={"cross_entropy": "parallel"}, parallel={"pp": 4}),
)


def holds(layout: Layout) -> Any:
    """Return whether there is something to divide, or another loss."""
    run = layout.run
    return (layout.parallel.tp > 1) | (run.cross_entropy != "parallel" or run.stack == "megatron")


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    return f"tensor_parallel is {int(layout.parallel.tp)}: a parallel cross entropy has nothing to divide"


def hint(layout: Layout) -> str | None:
    """Return what does the same."""
    return "cross_entropy: fused"
