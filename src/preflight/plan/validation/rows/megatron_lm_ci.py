"""Megatron-LM's CI: the last rank, so the last pipeline stage; dropout 0.1 and tied embeddings are its defaults."""

from __future__ import annotations

import re

from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import CannotExpress, Expressed, architecture, number
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


def express(row: Row) -> Expressed:
    """Return a row in words."""
    arch = architecture(row)
    if arch["family"] not in ("gpt", "moe"):
        raise CannotExpress(f"family {arch['family']}: vocabulary not stated or no word for its blocks")
    if "FSDP" in row["zero_fsdp_stage"] or "fp8" in row["precision"]:
        raise CannotExpress("Megatron-FSDP or native fp8 parameters: no word for it")
    if arch.get("multi_latent_attention"):
        raise CannotExpress("multi-head latent attention")
    other = row["notes"][row["notes"].find("other args:") :]
    tp, pp, cp, ep = (number(row, key) for key in ("tp", "pp", "cp", "ep"))
    unit = 128 * tp
    vocab = -(-50257 // unit) * unit  # the data set's GPT-2 vocabulary, padded to 128 x tensor parallel
    hidden = arch["hidden"]
    gated = bool(arch.get("swiglu"))
    # Megatron's own default: the feed-forward width is 4 hidden, for gated layers too.
    width = arch.get("ffn") or 4 * hidden
    model = ModelSpec(
        family="moe" if arch["family"] == "moe" else "transformer_decoder", layers=arch["layers"], hidden=hidden,
        heads=arch["heads"], kv_heads=arch.get("kv_heads"), ffn=width, gated=gated, activation="gelu", vocab=vocab,
        norm="layernorm", learned_positions=arch.get("pos") != "rope", max_positions=arch["max_pos"],
        bias=not arch.get("disable_bias_linear", False), dropout=0.0 if cp > 1 else 0.1,  # its tests with context parallelism switch dropout off
        fused_qkv=True,
        tied_embeddings=not arch.get("untie_embeddings_and_output_weights", False),
        experts=arch.get("experts", 0), experts_per_token=arch.get("topk", 0),
        expert_ffn=arch.get("moe_ffn") or width if arch.get("experts") else None,
    )  # fmt: skip
    micro, whole = number(row, "micro_batch"), number(row, "global_batch")
    data = number(row, "num_gpus") // (tp * pp * cp)
    optimizer_sharded = "ZeRO-1" in row["zero_fsdp_stage"]
    where = row["source_location"]
    apart = re.search(r"etp(\d+)", where)
    run = RunSpec(
        expert_grouping='"moe-grouped-gemm": true' in other,
        deterministic='"deterministic-mode": true' in other,
        micro_batch=micro, global_batch=whole, sequence_length=number(row, "seq_len"),
        precision="bf16", optimizer="adam", stack="megatron", foreach=False,
        attention="eager" if row["attention_impl"] in ("unfused", "local", "local/default") else "flash",
        cross_entropy="eager" if "cross-entropy-loss-fusion" in other else "parallel",
        recompute="full" if row["recompute"].startswith("full") else "none",
    )  # fmt: skip
    parallel = ParallelDims(
        dp_replicate=1 if optimizer_sharded else data, dp_shard=data if optimizer_sharded else 1,
        zero_stage=1 if optimizer_sharded else 0, tp=tp, pp=pp, cp=cp, ep=ep, etp=int(apart[1]) if apart and ep > 1 else None,
        vp=int(row["vp"] or 1), sequence_parallel='"sequence-parallel": true' in other, framework="megatron",
    )  # fmt: skip
    return Expressed(model=model, run=run, parallel=parallel, stage=pp - 1)
