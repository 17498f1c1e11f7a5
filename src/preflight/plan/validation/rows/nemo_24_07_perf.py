"""NeMo's performance summary of 2024: fp8 with Transformer Engine, distributed optimizer; recomputation left to recipes."""

from __future__ import annotations

from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import CannotExpress, Expressed, architecture, decoder, number
from preflight.vocabulary.run import ParallelDims, RunSpec


def express(row: Row) -> Expressed:
    """Return a row in words; its models fit without recomputation, which the recipes of these sizes leave off."""
    if row["task"] not in ("pretrain", "full-finetune"):
        raise CannotExpress("rank and targets of the adapters left to a recipe")
    arch = architecture(row)
    if "layers" not in arch or "vocab" not in arch:
        raise CannotExpress("architecture not stated")
    tp, pp, cp, ep = (number(row, key) for key in ("tp", "pp", "cp", "ep"))
    ranks = number(row, "num_gpus") // (tp * pp * cp)
    gelu = arch.get("act") == "gelu"
    model = decoder(arch, bias=gelu, fused_qkv=True, learned_positions=gelu, max_positions=number(row, "seq_len"))
    run = RunSpec(
        micro_batch=number(row, "micro_batch"), global_batch=number(row, "global_batch"),
        sequence_length=number(row, "seq_len"), precision="fp8" if "FP8" in row["precision"].upper() else "bf16",
        optimizer="adam", stack="megatron", attention="cudnn", cross_entropy="fused", clipping=True,
    )  # fmt: skip
    parallel = ParallelDims(
        dp_shard=ranks, zero_stage=1 if ranks > 1 else 0, tp=tp, pp=pp, vp=int(row["vp"] or 1), cp=cp, ep=ep,
        sequence_parallel=tp > 1, framework="megatron",
    )  # fmt: skip
    return Expressed(model=model, run=run, parallel=parallel)
