"""Expert-parallel ranks are taken from the data-parallel ones.

Experts are spread over ranks that would otherwise hold copies of them: those of data and context parallelism. There must
be as many, and they must fall into whole groups.
"""

from __future__ import annotations

import math
from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout, nearest_divisor

CONSTRAINT = Constraint(
    name="expert-ranks-missing", sentence="expert_parallel divides the data-parallel x context-parallel ranks"
)

GOOD = (
    Example(model={"experts": 8}, parallel={"ep": 4, "dp_shard": 8}),
    Example(model={"experts": 8}, parallel={"ep": 8, "dp_shard": 4, "cp": 2}),
    Example(model={"experts": 8}, parallel={"ep": 1}),
)
BAD = (
    Example(model={"experts": 8}, parallel={"ep": 8, "dp_shard": 4}),
    Example(model={"experts": 8}, parallel={"ep": 2, "tp": 8}),
    Example(model={"experts": 8}, parallel={"ep": 4, "dp_replicate": 6}),
)


def holds(layout: Layout) -> Any:
    """Return whether the ranks fall into whole groups."""
    return (layout.data * layout.parallel.cp) % layout.parallel.ep == 0


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    ranks, ep = int(layout.data * layout.parallel.cp), int(layout.parallel.ep)
    if not layout.model.experts:
        return f"expert_parallel is {ep}, but the model has no experts"
    if ep > ranks:
        return f"expert_parallel is {ep}, but only {ranks} data-parallel and context-parallel ranks hold experts"
    return f"the {ranks} data-parallel and context-parallel ranks cannot be divided by expert_parallel {ep}"


def hint(layout: Layout) -> str | None:
    """Return the nearest degree that divides ranks and experts."""
    ranks, experts = int(layout.data * layout.parallel.cp), layout.model.experts
    if not experts:
        return "leave it out"
    return f"{nearest_divisor(math.gcd(ranks, experts), layout.parallel.ep)} divides them"
