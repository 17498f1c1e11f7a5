"""The feed-forward width is divided over tensor-parallel ranks.

The first matrix of a feed-forward layer is cut by columns and the second by rows, so every rank has the same number of
them. A vocabulary that cannot be divided is padded, a feed-forward layer is not.
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout, nearest_degree

CONSTRAINT = Constraint(name="width-not-divisible", sentence="tensor_parallel divides the feed-forward width")

GOOD = (
    Example(model={"ffn": 11008}, parallel={"tp": 8}),
    Example(model={"ffn": None}, parallel={"tp": 8}),
    Example(model={"ffn": 14336}, parallel={"tp": 7}),
)
BAD = (
    Example(model={"ffn": 11008}, parallel={"tp": 3}),
    Example(model={"ffn": 1000}, parallel={"tp": 16}),
    Example(model={"ffn": 14336, "experts": 8, "expert_ffn": 1000}, parallel={"tp": 16}),
)


def holds(layout: Layout) -> Any:
    """Return whether every rank gets the same columns."""
    tp, width = layout.parallel.tp, _width(layout)
    return tp >= 1 if not width else width % tp == 0


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    return f"a feed-forward width of {_width(layout)} cannot be divided by tensor_parallel {int(layout.parallel.tp)}"


def hint(layout: Layout) -> str | None:
    """Return the nearest degree that divides it."""
    return f"{nearest_degree(layout, _width(layout) or 1, layout.parallel.tp)} divides it"


def _width(layout: Layout) -> int | None:
    model = layout.model
    return model.expert_ffn if model.experts and model.expert_ffn else model.ffn
