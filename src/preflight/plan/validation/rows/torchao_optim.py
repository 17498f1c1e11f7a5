"""torchao's low-bit Adam benchmark: a ViT of timm, compiled, under autocast."""

from __future__ import annotations

from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import CannotExpress, Expressed, architecture, number
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


def express(row: Row) -> Expressed:
    """Return a row in words."""
    if "not stated" in row["seq_len"] or not row["micro_batch"]:
        raise CannotExpress("image size or batch not stated")
    if not row["arch_json"]:
        raise CannotExpress("architecture not stated")
    arch = architecture(row)
    if "ffn" not in arch or "img" not in arch:
        raise CannotExpress("width or image size not stated")
    model = ModelSpec(
        family="vision_transformer", layers=arch["layers"], hidden=arch["hidden"], heads=arch["heads"],
        ffn=arch["ffn"], patch_size=arch["patch"], image_size=arch["img"], classes=45, norm="layernorm",
        activation="gelu", fused_qkv=True,
    )  # fmt: skip
    names = {"fused": "adamw", "8-bit": "torchao.AdamW8bit", "FP8": "torchao.AdamWFp8", "4-bit": "torchao.AdamW4bit"}
    optimizer = next((value for key, value in names.items() if key in row["optimizer"]), None)
    if optimizer is None:
        raise CannotExpress("optimizer without a known state size")
    run = RunSpec(
        micro_batch=number(row, "micro_batch"), image_size=arch["img"], precision="autocast-bf16",
        optimizer=optimizer, stack="compile", foreach="fused" not in row["optimizer"],
    )  # fmt: skip
    return Expressed(model=model, run=run, parallel=ParallelDims())
