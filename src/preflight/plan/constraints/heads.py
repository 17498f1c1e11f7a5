"""Attention heads are divided over tensor-parallel ranks.

A tensor-parallel rank computes whole heads: with 96 heads and 5 ranks one rank would hold a fraction of a head.
Megatron-LM, torchtitan and transformers' tensor-parallel plans all refuse it.
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout, nearest_degree

CONSTRAINT = Constraint(name="heads-not-divisible", sentence="tensor_parallel divides the attention heads")

GOOD = (
    Example(model={"heads": 32}, parallel={"tp": 8}),
    Example(model={"heads": 40}, parallel={"tp": 5}),
    Example(model={"heads": None}, parallel={"tp": 1}),
)
BAD = (
    Example(model={"heads": 32}, parallel={"tp": 3}),
    Example(model={"heads": 12}, parallel={"tp": 8}),
    Example(model={"heads": 4}, parallel={"tp": 8}),
)


def holds(layout: Layout) -> Any:
    """Return whether every rank gets whole heads."""
    heads = layout.model.heads
    return layout.parallel.tp <= 1 if not heads else heads % layout.parallel.tp == 0


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    heads, tp = layout.model.heads, int(layout.parallel.tp)
    if not heads:
        return f"tensor_parallel is {tp}, but the model has no attention heads to divide"
    if tp > heads:
        return f"tensor_parallel is {tp}, but the model has {heads} attention heads"
    return f"{heads} attention heads cannot be divided by tensor_parallel {tp}"


def hint(layout: Layout) -> str | None:
    """Return the nearest degree that divides them."""
    heads, tp = layout.model.heads, layout.parallel.tp
    if not heads:
        return "leave it out"
    return f"at most {heads}" if tp > heads else f"{nearest_degree(layout, heads, tp)} divides them"
