"""fast-DiT's training of DiT-XL/2 on one A100: autocast fp16, checkpointed blocks, a moving average of the weights."""

from __future__ import annotations

from preflight.catalog.architectures import resolve_model
from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import CannotExpress, Expressed, architecture, number
from preflight.vocabulary.run import ParallelDims, RunSpec


def express(row: Row) -> Expressed:
    """Return a row in words."""
    if "encoder in the step" in row["notes"]:
        raise CannotExpress("the images are encoded in the step")
    run = RunSpec(
        micro_batch=number(row, "micro_batch"), image_size=architecture(row)["img"], precision="autocast-fp16",
        optimizer="adamw", attention="eager", recompute="full", ema=True,
    )  # fmt: skip
    return Expressed(model=resolve_model("dit-xl-2"), run=run, parallel=ParallelDims())
