"""torchtune: its table of optimization flags, and of its README what the shipped configurations settle.

``recipes/configs`` at bd2a0fc7c: adapters on q, v, o and the feed-forward matrices, recomputation on, AdamW; 70B in full
lies on the host (``fsdp_cpu_offload``).
"""

from __future__ import annotations

from typing import Any

from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import CannotExpress, Expressed, architecture, decoder, number
from preflight.vocabulary.run import ParallelDims, RunSpec

_RANKS = {"Llama3.2-3B": 64, "Llama3.1-8B": 8, "Llama3.1-70B": 16}
_TUNED = {"full-finetune": "full", "lora": "lora", "qlora": "qlora"}


def express(row: Row) -> Expressed:
    """Return a row in words."""
    if row["num_gpus"] == "1" and row["model"] == "Llama3.1-8B" and row["task"] != "qlora":
        # 16.2 and 30.3 GiB for LoRA, 18.9 and 37.4 in full, on a 4090 and an A6000.
        raise CannotExpress("the same configuration reads twice as much on another GPU: settings that are not stated")
    if row["model"] not in _RANKS or not row["seq_len"]:
        raise CannotExpress("a configuration that is no longer shipped, or no length")
    sharded = row["zero_fsdp_stage"] == "FSDP2"
    parallel = ParallelDims()
    if sharded:
        parallel = ParallelDims(dp_shard=number(row, "num_gpus"), zero_stage=3, framework="fsdp2")
    return Expressed(model=decoder(architecture(row)), run=_run(row), parallel=parallel)


def _run(row: Row) -> RunSpec:
    finetune: Any = _TUNED[row["task"]]
    shipped = not row["recompute"]  # the README's rows: whatever the configuration says
    # The table is cumulative: chunked cross entropy comes after compile and stays.
    chunked = shipped or "chunked" in row["notes"] or row["recompute"] == "full"
    offload = row["offload"].lower()
    return RunSpec(
        micro_batch=number(row, "micro_batch"), sequence_length=number(row, "seq_len"), precision="pure-bf16",
        optimizer="torchao.AdamW8bit" if "8bit" in row["optimizer"] else "adamw",
        recompute="full" if shipped or row["recompute"] == "full" else "none",
        stack="compile" if row["compile"] == "torch.compile" else "eager",
        cross_entropy="chunked" if chunked else "eager", finetune=finetune,
        lora_rank=_RANKS[row["model"]] if finetune != "full" else None, lora_targets=("q", "v", "o", "mlp"),
        double_quantization=True,  # torchao's NF4 quantises its scales
        fused_backward="fused in back" in row["optimizer"],
        offload="activations" if "activation" in offload else "parameters" if "cpu" in offload else "none",
        logits_released=chunked,  # its recipes delete them before the backward pass; unchunked ones are upcast by the model
        foreach=False,  # its configurations for these models say fused: True
    )  # fmt: skip


def timed(row: Row, found: Expressed) -> Expressed:
    """Return what its time is taken of: full fine-tuning on one GPU."""
    if found.run.finetune != "full" or found.parallel.dp_shard > 1:
        raise CannotExpress("compared for its memory alone")
    return found
