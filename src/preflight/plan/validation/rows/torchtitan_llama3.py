"""torchtitan's benchmarks of Llama 3.1 at the end of 2024, from FSDP alone to four parallelisms."""

from __future__ import annotations

from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import Expressed, architecture, decoder, number
from preflight.vocabulary.run import ParallelDims, RunSpec


def express(row: Row) -> Expressed:
    """Return a row in words: the loss is not compiled, and over a divided vocabulary where tensors are split."""
    tp, pp, cp, local = (number(row, key) for key in ("tp", "pp", "cp", "micro_batch"))
    run = RunSpec(
        micro_batch=local // pp if pp > 1 else local,  # as many micro-batches as stages
        global_batch=number(row, "global_batch"), sequence_length=number(row, "seq_len"),
        precision="fp8" if row["precision"].startswith("fp8") else "bf16", optimizer="adamw", foreach=False,
        recompute="full" if row["recompute"] == "full" else "op", stack="compile" if row["compile"] != "no" else "eager",
        cross_entropy="parallel" if tp > 1 else "eager", logits_released=True, clipping=True,
        tensor_overlap="AsyncTP" in row["notes"],
    )  # fmt: skip
    parallel = ParallelDims(
        dp_shard=int(row["zero_fsdp_stage"].split()[1]), zero_stage=3, framework="fsdp2", tp=tp, pp=pp, cp=cp,
        sequence_parallel=tp > 1, reshard=pp == 1,  # its default keeps weights gathered in a pipeline
    )  # fmt: skip
    return Expressed(model=decoder(architecture(row)), run=run, parallel=parallel)
