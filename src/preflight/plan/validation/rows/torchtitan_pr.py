"""torchtitan: mixtures of experts with latent attention, from the messages of its commits.

The models' own widths (``torchtitan/models/deepseek_v3``): heads of 128 with 64 more that carry positions, keys and values
through a rank of 512, queries through one of 1536 in the largest model alone.
"""

from __future__ import annotations

import re

from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import CannotExpress, Expressed, architecture, decoder, number
from preflight.vocabulary.run import ParallelDims, RunSpec


def express(row: Row) -> Expressed:
    """Return a row in words."""
    arch = architecture(row)
    if not row["recompute"] or "graph" in row["recompute"] or "graph" in row["compile"] or "aot" in row["compile"]:
        raise CannotExpress("what the compiled graph keeps, or the kind of recomputation, is not stated")
    if not arch.get("mla"):
        raise CannotExpress("batch or length not stated")
    model = decoder(
        arch | {"act": "swiglu"}, family="moe", head_dim=192, kv_lora_rank=512, rope_head_dim=64, value_head_dim=128,
        q_lora_rank=1536 if arch["layers"] > 27 else None, experts=arch["experts"], experts_per_token=arch["topk"],
        shared_experts=arch["shared_experts"], expert_ffn=arch["moe_ffn"], dense_layers=arch["dense_layers"],
    )  # fmt: skip
    pp, local = number(row, "pp"), number(row, "micro_batch")
    pieces = re.search(r"(\d+) microbatches", row["notes"])
    # Its local batch is cut into micro-batches of one sample for a pipeline; two stages a rank when interleaved.
    micro = local // int(pieces[1]) if pieces else 1 if pp > 1 else local
    interleaved = "Interleaved" in row["notes"]
    run = RunSpec(
        micro_batch=micro, global_batch=number(row, "global_batch"), sequence_length=number(row, "seq_len"),
        precision="bf16", optimizer="adamw", recompute="full" if row["recompute"] == "full" else "none",
        stack="compile" if "compile" in row["compile"] else "eager", foreach=False, logits_released=True,
    )  # fmt: skip
    parallel = ParallelDims(
        dp_shard=int(row["zero_fsdp_stage"].split()[1]), zero_stage=3, framework="fsdp2", pp=pp, ep=number(row, "ep"),
        vp=2 if interleaved and pp > 1 else 1, reshard=pp == 1,  # its default keeps weights gathered in a pipeline
    )  # fmt: skip
    stage = re.search(r"PP rank (\d+)", row["notes"])
    return Expressed(model=model, run=run, parallel=parallel, stage=int(stage[1]) if stage else None)


def timed(row: Row, found: Expressed) -> Expressed:
    """Return what its time is taken of: nothing yet."""
    raise CannotExpress("compared for its memory alone")
