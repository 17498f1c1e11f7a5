"""torchtune's table of optimization flags; its README table leaves the shipped configuration to be looked up."""

from __future__ import annotations

from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import CannotExpress, Expressed, architecture, decoder, number
from preflight.vocabulary.run import ParallelDims, RunSpec


def express(row: Row) -> Expressed:
    """Return a row in words."""
    if not row["optimizer"] or not row["recompute"] or not row["seq_len"]:
        raise CannotExpress("optimizer, recomputation or length left to a shipped configuration")
    arch = architecture(row)
    length = number(row, "seq_len")
    optimizer = "adamw8bit" if "8bit" in row["optimizer"] else "adamw"
    finetune = {"full-finetune": "full", "lora": "lora", "qlora": "qlora"}[row["task"]]
    if finetune != "full":
        raise CannotExpress("rank and targets of the adapters left to a shipped configuration")
    # The table is cumulative: chunked cross entropy comes after compile and stays.
    chunked = "chunked" in row["notes"] or row["recompute"] == "full"
    run = RunSpec(
        micro_batch=number(row, "micro_batch"), sequence_length=length, precision="pure-bf16", optimizer=optimizer,
        recompute="full" if row["recompute"] == "full" else "none",
        stack="compile" if row["compile"] == "torch.compile" else "eager",
        cross_entropy="chunked" if chunked else "eager", finetune="full",
        fused_backward="fused in back" in row["optimizer"],
        offload="activations" if "activation" in row["offload"] else "none",
        logits_released=True,  # its recipes delete them before the backward pass
        foreach=False,  # its configurations for this model say fused: True
    )  # fmt: skip
    return Expressed(model=decoder(arch), run=run, parallel=ParallelDims())
