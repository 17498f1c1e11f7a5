"""LitGPT's pretraining script: bf16 throughout, eager rows only."""

from __future__ import annotations

import msgspec

from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import CannotExpress, Expressed, architecture, decoder, number
from preflight.vocabulary.run import ParallelDims, RunSpec


def express(row: Row) -> Expressed:
    """Return a row in words."""
    if row["compile"] != "Eager":
        raise CannotExpress("Thunder's executors: no word for what they save")
    arch = architecture(row)
    gpus = number(row, "num_gpus")
    run = RunSpec(
        micro_batch=number(row, "micro_batch"),
        sequence_length=number(row, "seq_len"),
        global_batch=number(row, "global_batch"),
        precision="pure-bf16",
        optimizer="adamw",
        attention="efficient",
    )
    parallel = ParallelDims()
    if row["zero_fsdp_stage"].startswith("FSDP"):
        parallel = ParallelDims(dp_shard=gpus, zero_stage=3, framework="fsdp1")
    elif row["zero_fsdp_stage"] == "DDP":
        parallel = ParallelDims(dp_replicate=gpus, framework="ddp")
    return Expressed(model=decoder(arch, fused_qkv=True), run=run, parallel=parallel)


def timed(row: Row, found: Expressed) -> Expressed:
    """Return what its "ms/iter" times: one micro-batch, of which several make a step."""
    one = found.run.micro_batch or 1
    ranks = found.parallel.dp_replicate * found.parallel.dp_shard
    return msgspec.structs.replace(found, run=msgspec.structs.replace(found.run, global_batch=one * ranks))
