"""timm's training benchmark: convolutional networks and ViTs on one RTX 3090, autocast fp16, SGD with momentum."""

from __future__ import annotations

from preflight.catalog.architectures import find_model
from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import CannotExpress, Expressed, architecture, number
from preflight.vocabulary.run import ParallelDims, RunSpec


def express(row: Row) -> Expressed:
    """Return a row in words."""
    if "NHWC" not in row["precision"]:
        raise CannotExpress("images in planes: which kernels cuDNN takes for them is not known")
    model = find_model(row["model"])
    if model is None:
        raise CannotExpress("model not in the catalog")
    run = RunSpec(
        micro_batch=number(row, "micro_batch"), image_size=architecture(row)["img"], precision="autocast-fp16",
        optimizer="sgd", optimizer_momentum=0.9, attention="eager",  # torch 1.12 has no fused attention
    )  # fmt: skip
    return Expressed(model=model, run=run, parallel=ParallelDims())
