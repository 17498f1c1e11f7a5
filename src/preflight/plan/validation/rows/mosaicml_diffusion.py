"""MosaicML's training of Stable Diffusion 2: the U-Net alone, latents and texts computed before, FSDP that shards gradients."""

from __future__ import annotations

from preflight.catalog.architectures import resolve_model
from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import Expressed, architecture, number
from preflight.vocabulary.run import ParallelDims, RunSpec


def express(row: Row) -> Expressed:
    """Return a row in words."""
    run = RunSpec(
        micro_batch=number(row, "micro_batch"), global_batch=number(row, "global_batch"), optimizer="adamw",
        image_size=architecture(row)["img"], precision="autocast-fp16", attention="efficient",
    )  # fmt: skip
    parallel = ParallelDims(dp_shard=number(row, "num_gpus"), zero_stage=2, framework="fsdp2")
    return Expressed(model=resolve_model("stable-diffusion-2-1"), run=run, parallel=parallel)
