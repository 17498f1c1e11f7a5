"""LitGPT fine-tuning scripts: fused qkv, LoRA dropout 0.05, logits and loss in chunks of 128, bf16 throughout."""

from __future__ import annotations

import msgspec

from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import CannotExpress, Expressed, architecture, decoder, number
from preflight.vocabulary.run import ParallelDims, RunSpec

LORA_TARGETS = {"query": "q", "key": "k", "value": "v", "projection": "o", "mlp": "mlp", "head": "head"}


def express(row: Row) -> Expressed:
    """Return a row of either table in words."""
    arch = architecture(row)
    if arch["method"].startswith("adapter"):
        raise CannotExpress("LLaMA-Adapter: no word for it")
    if row["zero_fsdp_stage"] == "see notes":
        raise CannotExpress("layout over GPUs not verified by the source")
    if row["zero_fsdp_stage"] == "FSDP":
        # 7B: 20.7, 20.9, 21.8 GiB at batch 1, 2, 4, and 4 GPUs read as much as one.
        raise CannotExpress("sharded, but the reading hardly grows with the batch: the peak lies in loading")
    # Its output matrix is one of its own, even where the published model ties it.
    spec = decoder(arch, fused_qkv=True, tied_embeddings=False)
    if row["model"].lower().startswith("stablelm"):
        spec = msgspec.structs.replace(spec, parallel_blocks=True)
    if "falcon" in (arch.get("family") or ""):
        spec = msgspec.structs.replace(spec, bias=False, norms_per_block=1)
    if row["model"].startswith(("phi-1.5", "phi-2")):
        spec = msgspec.structs.replace(spec, norms_per_block=1)
    if row["model"].startswith("gemma-2-9b") or (row["model"] == "gemma-2b" and arch["layers"] == 26):
        spec = msgspec.structs.replace(spec, norms_per_block=4, attention_softcap=True)
    lora = arch["method"] in ("lora", "qlora")
    quantized = (arch.get("quant") or "None") != "None"
    targets = tuple(LORA_TARGETS[name] for name in arch.get("lora_targets") or ["query", "value"])
    run = RunSpec(
        quantized_head=True,
        quantized_inputs=True,  # bitsandbytes 0.41 and 0.42
        unpacked_copies=2,  # Lightning quantises from fp16, the product is in bf16
        longest_first="longest batch first" in row["notes"],
        micro_batch=number(row, "micro_batch"),
        sequence_length=number(row, "seq_len"),
        variable_length=True,
        attention="efficient",  # its code repeats keys and values for every head
        gradient_accumulation=4 if number(row, "global_batch") > number(row, "micro_batch") else 1,
        precision="pure-bf16",
        optimizer="pagedadamw" if quantized and "Paged" in row["optimizer"] else "adamw",
        recompute="full" if row["recompute"].startswith("full") else "none",
        cross_entropy="chunked",
        cross_entropy_chunks=max(number(row, "seq_len") // 128, 1),
        logits_upcast=True,  # Lightning Fabric returns fp32 outputs from low-precision modules
        finetune=("qlora" if quantized else "lora") if lora else "full",
        lora_rank=arch.get("lora_r"),
        lora_targets=targets if lora else ("q", "v"),
        lora_dropout=0.05 if lora else 0.0,
        double_quantization=str(arch.get("quant")).endswith("dq"),
    )
    return Expressed(model=spec, run=run, parallel=ParallelDims())
