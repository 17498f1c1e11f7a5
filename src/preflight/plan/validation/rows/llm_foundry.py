"""llm-foundry's table of MPT models: FSDP of torch 1.13 or 2.0, fused cross entropy and low-precision norms by default."""

from __future__ import annotations

import re

import msgspec

from preflight.catalog.hardware import load_link
from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import Expressed, architecture, cluster_of, decoder, number
from preflight.vocabulary.run import ParallelDims, RunSpec

_ACCUMULATION = re.compile(r"grad accumulation column = (\d+)")


def express(row: Row) -> Expressed:
    """Return a row in words."""
    arch = architecture(row)
    model = decoder(
        arch, bias=False, fused_qkv=True, tied_embeddings=arch["tied"], learned_positions=arch["learned_pos"],
        max_positions=number(row, "seq_len"),
    )  # fmt: skip
    found = _ACCUMULATION.search(row["notes"])
    gpus, whole = number(row, "num_gpus"), number(row, "global_batch")
    pieces = int(found.group(1)) if found else max(whole // (gpus * number(row, "micro_batch")), 1)
    run = RunSpec(
        # Micro-batches need not divide the batch: the last one is smaller.
        micro_batch=-(-whole // (gpus * pieces)), global_batch=whole, gradient_accumulation=pieces,
        sequence_length=number(row, "seq_len"), precision="fp8" if "fp8" in row["precision"] else "bf16",
        # flash-attn 1 of that release runs at the rate of the memory-efficient kernel.
        optimizer="adamw", attention="efficient", recompute="full" if row["recompute"] == "full" else "none",
        cross_entropy="fused", clipping=True,
    )  # fmt: skip
    stage = 3 if row["zero_fsdp_stage"].startswith("FULL") else 2
    cluster = cluster_of(row)
    if cluster is not None and cluster.inter is not None:
        # 1,600 Gbit/s between nodes of A100 and 3,200 between those of H100, eight GPUs each.
        cluster = msgspec.structs.replace(cluster, inter=load_link("roce_400" if "H100" in row["gpu"] else "roce_200"))
    return Expressed(
        model=model, run=run, cluster=cluster,
        parallel=ParallelDims(dp_shard=gpus, zero_stage=stage, framework="fsdp1"),
    )  # fmt: skip
