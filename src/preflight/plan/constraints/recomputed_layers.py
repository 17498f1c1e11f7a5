"""Blocks that are recomputed are counted by stage.

Where full recomputation covers some of the blocks, every pipeline stage recomputes as many as the others: Megatron-LM's
``--recompute-num-layers`` is a number for each virtual stage, and so are the lists of torchtitan's selective checkpointing.
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout

CONSTRAINT = Constraint(
    name="recomputed-layers-not-divisible",
    sentence="pipeline_parallel x virtual_pipeline divides the blocks that are recomputed",
)

GOOD = (
    Example(run={"recompute": "full", "recompute_layers": 16}, parallel={"pp": 4}),
    Example(run={"recompute": "full"}, parallel={"pp": 4}),
    Example(run={"recompute": "none", "recompute_layers": 3}, parallel={"pp": 4}),
)
BAD = (
    Example(run={"recompute": "full", "recompute_layers": 10}, parallel={"pp": 4}),
    Example(run={"recompute": "full", "recompute_layers": 1}, parallel={"pp": 2}),
    Example(run={"recompute": "full", "recompute_layers": 12}, parallel={"pp": 4, "vp": 2}),
    Example(run={"recompute": "full", "recompute_layers": 31}, parallel={"pp": 8}),
)


def holds(layout: Layout) -> Any:
    """Return whether every stage recomputes whole blocks."""
    layers = layout.run.recompute_layers
    if layers is None or layout.run.recompute != "full":
        return layout.parallel.pp >= 1
    return (layers % (layout.parallel.pp * layout.parallel.vp) == 0) | (layers == layout.model.layers)


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    layers, pp, vp = layout.run.recompute_layers, int(layout.parallel.pp), int(layout.parallel.vp)
    chunks = f" x virtual_pipeline {vp}" if vp > 1 else ""
    return f"{layers} recomputed blocks cannot be divided by pipeline_parallel {pp}{chunks}"


def hint(layout: Layout) -> str | None:
    """Return the nearest number that can be divided."""
    layers, stages = layout.run.recompute_layers or 1, int(layout.parallel.pp * layout.parallel.vp)
    return f"{max(round(layers / stages), 1) * stages} can"
