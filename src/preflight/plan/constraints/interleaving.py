"""Interleaving needs a pipeline, and micro-batches in whole rounds.

A stage that holds several parts of the model takes micro-batches through them in rounds of ``pipeline_parallel``: the
number of micro-batches must be a multiple of it (Narayanan et al. 2021, arXiv 2104.04473; Megatron-LM refuses others).
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout

CONSTRAINT = Constraint(
    name="interleaving-without-rounds",
    sentence="virtual_pipeline above 1 needs stages, and micro-batches that are a multiple of them",
)

GOOD = (
    Example(run={"global_batch": 64, "micro_batch": 1}, parallel={"pp": 4, "vp": 2}),
    Example(run={"global_batch": 7, "micro_batch": 1}, parallel={"pp": 4, "vp": 1}),
    Example(parallel={"pp": 1, "vp": 1}),
)
BAD = (
    Example(parallel={"pp": 1, "vp": 2}),
    Example(run={"global_batch": 6, "micro_batch": 1}, parallel={"pp": 4, "vp": 2}),
    Example(run={"global_batch": 64, "micro_batch": 8}, parallel={"pp": 16, "vp": 2}),
)


def holds(layout: Layout) -> Any:
    """Return whether interleaving is off or its rounds are whole."""
    parallel = layout.parallel
    return (parallel.vp == 1) | ((parallel.pp > 1) & (layout.micro_batches % parallel.pp == 0))


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    vp, pp = int(layout.parallel.vp), int(layout.parallel.pp)
    if pp == 1:
        return f"virtual_pipeline is {vp}, but there is one pipeline stage"
    count = layout.micro_batches
    said = "1 micro-batch is" if count == 1 else f"{count:g} micro-batches are"
    return f"{said} no multiple of the {pp} stages that virtual_pipeline {vp} interleaves"


def hint(layout: Layout) -> str | None:
    """Return what makes the rounds whole."""
    pp = int(layout.parallel.pp)
    if pp == 1:
        return "leave it out"
    rounds = -(-layout.micro_batches // pp)
    return f"{rounds * pp:g} micro-batches are, or virtual_pipeline 1"
