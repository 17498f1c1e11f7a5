"""Experts are divided over expert-parallel ranks.

A rank holds whole experts, each with its own matrices: 8 experts lie on 1, 2, 4 or 8 ranks.
Megatron-LM and torchtitan give every rank the same number of them.
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout, nearest_degree

CONSTRAINT = Constraint(name="experts-not-divisible", sentence="expert_parallel divides the experts")

GOOD = (
    Example(model={"experts": 8}, parallel={"ep": 4, "dp_shard": 4}),
    Example(model={"experts": 60}, parallel={"ep": 6, "dp_shard": 6}),
    Example(parallel={"ep": 1}),
)
BAD = (
    Example(model={"experts": 8}, parallel={"ep": 3}),
    Example(model={"experts": 8}, parallel={"ep": 16}),
    Example(parallel={"ep": 2}),
)


def holds(layout: Layout) -> Any:
    """Return whether every rank gets whole experts."""
    experts, ep = layout.model.experts, layout.parallel.ep
    return ep <= 1 if not experts else experts % ep == 0


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    experts, ep = layout.model.experts, int(layout.parallel.ep)
    if not experts:
        return f"expert_parallel is {ep}, but the model has no experts"
    if ep > experts:
        return f"expert_parallel is {ep}, but the model has {experts} experts"
    return f"{experts} experts cannot be divided by expert_parallel {ep}"


def hint(layout: Layout) -> str | None:
    """Return the nearest degree that divides them."""
    experts, ep = layout.model.experts, layout.parallel.ep
    if not experts:
        return "leave it out"
    return f"at most {experts}" if ep > experts else f"{nearest_degree(layout, experts, ep)} divides them"
