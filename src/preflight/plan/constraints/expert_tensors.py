"""A tensor-parallel degree of the experts needs experts, and ranks.

The matrices of an expert may be divided over other ranks than those of attention: ``expert_tensor_parallel`` times
``expert_parallel`` of them share a copy of all experts, and the ranks of a pipeline stage fall into whole such groups.
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout, nearest_divisor

CONSTRAINT = Constraint(
    name="expert-tensors-not-divisible",
    sentence="expert_tensor_parallel x expert_parallel divides the ranks of a pipeline stage",
)

GOOD = (
    Example(model={"experts": 8}, parallel={"etp": 2, "ep": 2, "tp": 4, "dp_shard": 4}),
    Example(model={"experts": 8}, parallel={"etp": 1, "tp": 4}),
    Example(parallel={"tp": 4}),
)
BAD = (
    Example(parallel={"etp": 2, "tp": 4}),
    Example(model={"experts": 8}, parallel={"etp": 3, "tp": 4}),
    Example(model={"experts": 8}, parallel={"etp": 8, "ep": 2, "dp_shard": 8}),
)


def holds(layout: Layout) -> Any:
    """Return whether there are experts, and ranks for them."""
    etp = layout.parallel.etp
    if etp is None:
        return True
    return bool(layout.model.experts) and _ranks(layout) % (etp * layout.parallel.ep) == 0


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    etp, ep = layout.parallel.etp, int(layout.parallel.ep)
    if not layout.model.experts:
        return f"expert_tensor_parallel is {etp}, but the model has no experts"
    return f"{int(_ranks(layout))} ranks of a stage cannot be divided by expert_tensor_parallel x expert_parallel {etp} x {ep}"


def hint(layout: Layout) -> str | None:
    """Return the nearest degree that divides them."""
    if not layout.model.experts:
        return "leave it out"
    own = max(int(_ranks(layout) // layout.parallel.ep), 1)
    return f"expert_tensor_parallel {nearest_divisor(own, layout.parallel.etp or 1)} can"


def _ranks(layout: Layout) -> Any:
    """Return the ranks of a pipeline stage."""
    return layout.data * layout.parallel.cp * layout.parallel.tp
