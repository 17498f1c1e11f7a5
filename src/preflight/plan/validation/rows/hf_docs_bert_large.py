"""transformers' single-GPU guide: BERT-large for classification, eager attention, dropout 0.1, HF AdamW."""

from __future__ import annotations

from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import Expressed, architecture, number
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


def express(row: Row) -> Expressed:
    """Return a row in words."""
    arch = architecture(row)
    model = ModelSpec(
        family="transformer_encoder", layers=arch["layers"], hidden=arch["hidden"], heads=arch["heads"],
        ffn=arch["ffn"], vocab=arch["vocab"], max_positions=512, norm="layernorm", activation="gelu", dropout=0.1,
        head="classification", classes=2,
    )  # fmt: skip
    optimizer = {"AdamW (HF)": "adamw", "Adafactor": "adafactor", "bnb Adam8bit": "adam8bit"}[row["optimizer"]]
    batch, whole = number(row, "micro_batch"), number(row, "global_batch")
    run = RunSpec(
        clipping=True,  # the Trainer's max_grad_norm is 1
        micro_batch=batch, sequence_length=number(row, "seq_len"), gradient_accumulation=whole // batch,
        precision="autocast-fp16" if "amp" in row["precision"] else "fp32", optimizer=optimizer, attention="eager",
        recompute="full" if row["recompute"] == "full" else "none", stack="transformers",
        gradients_stay=True,  # the Trainer of 2022 under torch 1 zeroed them in place
        foreach=False,  # HF's own AdamW and Adafactor step over one parameter at a time
    )  # fmt: skip
    return Expressed(model=model, run=run, parallel=ParallelDims())
