"""Model parallelism needs a stack of equal blocks.

Tensor, pipeline and context parallelism are defined for transformer blocks: their matrices, their order, their sequence.
Networks of convolutions are spread over data alone.
"""

from __future__ import annotations

from typing import Any

from preflight.cost.parameters import is_transformer
from preflight.plan.constraint import Constraint, Example, Layout

CONSTRAINT = Constraint(
    name="model-parallel-without-blocks", sentence="tensor, pipeline and context parallelism need a transformer"
)

GOOD = (
    Example(model={"family": "transformer_decoder"}, parallel={"tp": 2, "pp": 2}),
    Example(model={"family": "cnn", "heads": None, "layers": None}, parallel={"dp_shard": 8}),
    Example(model={"family": "moe", "experts": 8}, parallel={"tp": 2}),
)
BAD = (
    Example(model={"family": "cnn"}, parallel={"tp": 2}),
    Example(model={"family": "cnn"}, parallel={"pp": 4}),
    Example(model={"family": "rnn"}, parallel={"cp": 2}),
)


def holds(layout: Layout) -> Any:
    """Return whether the model has blocks, or nothing divides them."""
    parallel = layout.parallel
    return (parallel.tp * parallel.pp * parallel.cp <= 1) | is_transformer(layout.model)


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    parallel = layout.parallel
    product = f"{int(parallel.tp)} x {int(parallel.pp)} x {int(parallel.cp)}"
    return f"tensor x pipeline x context is {product}, but a model of kind {layout.model.family} has no equal blocks to divide"


def hint(layout: Layout) -> str | None:
    """Return what can be done."""
    return "data_parallel or fsdp"
