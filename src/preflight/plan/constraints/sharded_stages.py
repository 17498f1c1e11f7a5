"""DeepSpeed's pipeline shards optimizer states only.

A pipeline accumulates gradients over many micro-batches, which ZeRO 2 would have to scatter and ZeRO 3 to gather weights
for every one of them. DeepSpeed's pipeline engine refuses both; FSDP2 and Megatron-LM have no such limit, or no such stage.
"""

from __future__ import annotations

from typing import Any

from preflight.plan.constraint import Constraint, Example, Layout

CONSTRAINT = Constraint(
    name="sharded-gradients-in-pipeline", sentence="DeepSpeed's pipeline parallelism needs ZeRO 0 or 1"
)

GOOD = (
    Example(parallel={"pp": 4, "dp_shard": 2, "zero_stage": 1, "framework": "deepspeed"}),
    Example(parallel={"pp": 1, "dp_shard": 8, "zero_stage": 3, "framework": "deepspeed"}),
    Example(parallel={"pp": 4, "dp_shard": 2, "zero_stage": 3, "framework": "fsdp2"}),
)
BAD = (
    Example(parallel={"pp": 4, "dp_shard": 2, "zero_stage": 2, "framework": "deepspeed"}),
    Example(parallel={"pp": 2, "dp_shard": 4, "zero_stage": 3, "framework": "deepspeed"}),
    Example(parallel={"pp": 8, "dp_shard": 8, "zero_stage": 3, "framework": "deepspeed"}),
)


def holds(layout: Layout) -> Any:
    """Return whether there is no pipeline, or nothing in it that DeepSpeed refuses."""
    parallel = layout.parallel
    return (parallel.pp <= 1) | (parallel.framework != "deepspeed" or parallel.zero_stage < 2)


def reason(layout: Layout) -> str:
    """Return why a layout may not be."""
    return f"DeepSpeed runs no pipeline of {int(layout.parallel.pp)} stages with ZeRO {layout.parallel.zero_stage}"


def hint(layout: Layout) -> str | None:
    """Return the stage that it does run."""
    return "ZeRO 1, or FSDP2"
