"""Layers are divided over pipeline stages and their virtual parts.

Every stage holds as many blocks as every other, and with interleaving as many in each of its ``virtual_pipeline`` parts.
Frameworks also allow the embedding and the output matrix to count as one block each (Llama 3 405B has 126 blocks, so that
16 stages hold 128 such pieces), which is why 126 layers may be cut into 2, 4, 8 or 16 stages as well as into 3, 6 or 7.
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout

CONSTRAINT = Constraint(
    name="layers-not-divisible",
    sentence="pipeline_parallel x virtual_pipeline divides the layers, or the layers with embedding and output",
)

GOOD = (
    Example(model={"layers": 32}, parallel={"pp": 4, "vp": 4}),
    Example(model={"layers": 126}, parallel={"pp": 16}),
    Example(model={"layers": 126}, parallel={"pp": 7, "vp": 3}),
)
BAD = (
    Example(model={"layers": 32}, parallel={"pp": 3}),
    Example(model={"layers": 24}, parallel={"pp": 48}),
    Example(model={"layers": 32}, parallel={"pp": 8, "vp": 3}),
)


def holds(layout: Layout) -> Any:
    """Return whether every part of every stage gets the same number of blocks."""
    parts, layers = layout.parallel.pp * layout.parallel.vp, layout.model.layers
    if not layers:
        return parts <= 1
    return (parts <= layers) & ((layers % parts == 0) | ((layers + 2) % parts == 0))


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    parts, layers = _parts(layout), layout.model.layers
    name = "pipeline_parallel" if layout.parallel.vp == 1 else "pipeline_parallel x virtual_pipeline"
    if not layers:
        return f"{name} is {parts}, but the model has no layers that are known"
    if parts > layers:
        return f"{name} is {parts}, but the model has {layers} layers"
    return f"{layers} layers cannot be divided by {name} {parts}"


def hint(layout: Layout) -> str | None:
    """Return the nearest number of parts that divides them."""
    parts, layers = _parts(layout), layout.model.layers
    pp, gpus = int(layout.parallel.pp), layout.cluster.num_gpus
    if layout.parallel.vp > 1 and (layers or 0) % pp == 0:
        able = [value for value in range(1, (layers or 0) // pp + 1) if (layers or 0) % (value * pp) == 0]
        near = min(able, key=lambda value: (abs(value - layout.parallel.vp), value))
        return f"virtual_pipeline {near} divides them"
    if not layers:
        return "leave it out"
    if parts > layers:
        return f"at most {layers}"
    able = [
        value
        for value in range(1, layers + 1)
        if (layers % value == 0 or (layers + 2) % value == 0) and gpus % value == 0
    ]
    return f"{min(able, key=lambda value: (abs(value - parts), value))} divides them"


def _parts(layout: Layout) -> int:
    return int(layout.parallel.pp * layout.parallel.vp)
