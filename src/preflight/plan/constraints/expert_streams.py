"""Experts beside tensor parallelism need sequence parallelism.

Without it every tensor-parallel rank would send the same tokens to the experts. Megatron-LM refuses to start.
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout

CONSTRAINT = Constraint(
    name="experts-without-sequence-parallel",
    sentence="expert_parallel beside tensor_parallel needs sequence_parallel",
)

GOOD = (
    Example(model={"experts": 8}, parallel={"ep": 4, "dp_shard": 4, "tp": 2, "sequence_parallel": True}),
    Example(model={"experts": 8}, parallel={"ep": 4, "dp_shard": 4}),
    Example(model={"experts": 8}, parallel={"ep": 1, "tp": 2}),
)
BAD = (
    Example(model={"experts": 8}, parallel={"ep": 4, "dp_shard": 4, "tp": 2}),
    Example(model={"experts": 8}, parallel={"ep": 8, "dp_shard": 8, "tp": 4}),
    Example(model={"experts": 64}, parallel={"ep": 2, "dp_shard": 8, "tp": 8}),
)


def holds(layout: Layout) -> Any:
    """Return whether tokens are divided before they are sent."""
    parallel = layout.parallel
    return (parallel.ep <= 1) | (parallel.tp <= 1) | parallel.sequence_parallel


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    ep, tp = int(layout.parallel.ep), int(layout.parallel.tp)
    return f"expert_parallel {ep} beside tensor_parallel {tp} without sequence_parallel sends every token {tp} times"


def hint(layout: Layout) -> str | None:
    """Return the setting that is needed."""
    return "sequence_parallel: true"
