"""Heads of keys and values are divided over tensor-parallel ranks.

With grouped queries a rank holds whole groups: 8 heads of keys and values allow 1, 2, 4 or 8 ranks.
Megatron-LM asks that the number of query groups be a multiple of the tensor-parallel size; torchtitan's plans shard the
same matrices by heads.
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout, nearest_degree

CONSTRAINT = Constraint(name="kv-heads-not-divisible", sentence="tensor_parallel divides the heads of keys and values")

GOOD = (
    Example(model={"heads": 32, "kv_heads": 8}, parallel={"tp": 8}),
    Example(model={"heads": 32, "kv_heads": None}, parallel={"tp": 16}),
    Example(model={"heads": 32, "kv_heads": 1}, parallel={"tp": 1}),
)
BAD = (
    Example(model={"heads": 64, "kv_heads": 8}, parallel={"tp": 16}),
    Example(model={"heads": 32, "kv_heads": 2}, parallel={"tp": 4}),
    Example(model={"heads": 24, "kv_heads": 6}, parallel={"tp": 4}),
)


def holds(layout: Layout) -> Any:
    """Return whether every rank gets whole heads of keys and values; latent attention (MLA) has none to divide."""
    model = layout.model
    if not model.kv_heads or model.kv_lora_rank:
        return layout.parallel.tp >= 1
    return model.kv_heads % layout.parallel.tp == 0


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    return f"{layout.model.kv_heads} heads of keys and values cannot be divided by tensor_parallel {int(layout.parallel.tp)}"


def hint(layout: Layout) -> str | None:
    """Return the nearest degree that divides them."""
    return f"{nearest_degree(layout, layout.model.kv_heads or 1, layout.parallel.tp)} divides them"
