"""Megatron-LM's CI: the last rank, so the last pipeline stage; dropout 0.1 and tied embeddings are its defaults."""

from __future__ import annotations

import re
from typing import Any

from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import CannotExpress, Expressed, architecture, number, torch_of
from preflight.vocabulary.model import ModelFamily, ModelSpec
from preflight.vocabulary.run import Attention, ParallelDims, RunSpec

# The tokens of GPT-2's, of BERT's and of the cased BERT's vocabulary with T5's hundred extra ones.
_TOKENS = {"gpt": 50257, "moe": 50257, "bert": 30522, "t5": 28996 + 100}
_FAMILIES: dict[str, ModelFamily] = {
    "gpt": "transformer_decoder", "moe": "moe", "bert": "transformer_encoder", "t5": "encoder_decoder",
}  # fmt: skip


def express(row: Row) -> Expressed:
    """Return a row in words."""
    arch = architecture(row)
    if arch["family"] not in _FAMILIES:
        raise CannotExpress(f"family {arch['family']}: no word for its blocks")
    if "FSDP" in row["zero_fsdp_stage"] and "fp8" in row["precision"]:
        raise CannotExpress("Megatron-FSDP with 8-bit parameters: no word for it")
    pp = number(row, "pp")
    other = row["notes"][row["notes"].find("other args:") :]
    return Expressed(model=_model(row, arch), run=_run(row, arch, other), parallel=_parallel(row, other), stage=pp - 1)


def _model(row: Row, arch: dict[str, Any]) -> ModelSpec:
    hidden, family = arch["hidden"], arch["family"]
    unit = 128 * number(row, "tp")  # the vocabulary is padded to 128 x tensor parallel
    # Megatron's own default: the feed-forward width is 4 hidden, for gated layers too.
    width = arch.get("ffn") or 4 * hidden
    # Its tests with context parallelism switch dropout off.
    dropout = 0.0 if number(row, "cp") > 1 else 0.1
    return ModelSpec(
        family=_FAMILIES[family], layers=arch["layers"], hidden=hidden, heads=arch["heads"],
        kv_heads=arch.get("kv_heads"), head_dim=arch.get("head_dim"), ffn=width, gated=bool(arch.get("swiglu")),
        activation="gelu", vocab=-(-_TOKENS[family] // unit) * unit, norm="layernorm",
        learned_positions=arch.get("pos") != "rope", max_positions=arch["max_pos"],
        bias=not arch.get("disable_bias_linear", False), dropout=dropout, fused_qkv=True,
        tied_embeddings=not arch.get("untie_embeddings_and_output_weights", False),
        decoder_layers=arch.get("decoder_layers"), head="mlm" if family == "bert" else None, pooler=family == "bert",
        experts=arch.get("experts", 0), experts_per_token=arch.get("topk", 0),
        expert_ffn=arch.get("moe_ffn") or width if arch.get("experts") else None,
    )  # fmt: skip


def _run(row: Row, arch: dict[str, Any], other: str) -> RunSpec:
    return RunSpec(
        micro_batch=number(row, "micro_batch"), global_batch=number(row, "global_batch"),
        sequence_length=number(row, "seq_len"), target_length=arch.get("decoder_seq"),
        precision="fp8" if "fp8" in row["precision"] else "fp16" if row["precision"] == "fp16" else "bf16",
        fp8_weights='"fp8-param-gather": true' in other, tensor_overlap='"tp-comm-overlap": true' in other,
        optimizer="adam", stack="megatron", foreach=False, attention=_attention(row, other), torch=torch_of(row),
        cross_entropy="eager" if "cross-entropy-loss-fusion" in other else "parallel",
        recompute="full" if row["recompute"].startswith("full") else "none",
        expert_grouping='"moe-grouped-gemm": true' in other, deterministic='"deterministic-mode": true' in other,
    )  # fmt: skip


def _attention(row: Row, other: str) -> Attention:
    if row["attention_impl"] not in ("unfused", "local", "local/default"):
        return "flash"
    # Scaling by layers asks for a softmax in fp32, which torch takes where Megatron's own kernel is switched off.
    plain = '"no-masked-softmax-fusion": true' in other and '"apply-query-key-layer-scaling": true' in other
    return "math" if plain else "eager"


def _parallel(row: Row, other: str) -> ParallelDims:
    tp, pp, cp, ep = (number(row, key) for key in ("tp", "pp", "cp", "ep"))
    data = number(row, "num_gpus") // (tp * pp * cp)
    stage = 3 if "FSDP" in row["zero_fsdp_stage"] else 1 if "ZeRO-1" in row["zero_fsdp_stage"] else 0
    apart = re.search(r"etp(\d+)", row["source_location"])
    return ParallelDims(
        dp_replicate=1 if stage else data, dp_shard=data if stage else 1, zero_stage=stage, tp=tp, pp=pp, cp=cp, ep=ep,
        etp=int(apart[1]) if apart and ep > 1 else None, vp=int(row["vp"] or 1),
        sequence_parallel='"sequence-parallel": true' in other, framework="megatron",
    )  # fmt: skip


def timed(row: Row, found: Expressed) -> Expressed:
    """Return what its time is taken of: tests of tiny models, of which those of plain decoders are compared."""
    family = found.model.family
    if family in ("transformer_encoder", "encoder_decoder") or found.parallel.zero_stage == 3:
        raise CannotExpress("compared for its memory alone")
    if found.run.precision == "fp8":
        raise CannotExpress("compared for its memory alone")
    return found
