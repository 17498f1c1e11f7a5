"""Published memory measurements as words of the vocabulary: one function per source."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

GIB = 1024**3
LORA_TARGETS = {"query": "q", "key": "k", "value": "v", "projection": "o", "mlp": "mlp", "head": "head"}


class Expressed(msgspec.Struct, frozen=True, kw_only=True):
    """A row in the vocabulary's words."""

    model: ModelSpec
    run: RunSpec
    parallel: ParallelDims
    stage: int | None = None


class CannotExpress(Exception):
    """Why a row cannot be expressed: what its source does not say, or what the vocabulary has no word for."""


def number(row: Mapping[str, str], key: str) -> int:
    """Return a whole number of a row."""
    try:
        return int(row[key])
    except ValueError:
        raise CannotExpress(f"{key} not stated as a number") from None


def decoder(arch: Mapping[str, Any], **more: Any) -> ModelSpec:
    """Return a decoder: gated ones with RMS norms, the GELU ones of these sources (GPT-NeoX kin) with LayerNorm."""
    gated = arch.get("act") in ("swiglu", "geglu")
    fields: dict[str, Any] = {
        "family": "transformer_decoder",
        "layers": arch["layers"],
        "hidden": arch["hidden"],
        "heads": arch["heads"],
        "kv_heads": arch.get("kv_heads"),
        "head_dim": arch.get("head_dim"),
        "ffn": arch["ffn"],
        "gated": gated,
        "activation": {"swiglu": "silu", "geglu": "gelu"}.get(arch.get("act", ""), "gelu"),
        "norm": "rmsnorm" if gated else "layernorm",
        "bias": not gated,
        "vocab": arch["vocab"],
        "tied_embeddings": bool(arch.get("tied", False)),
    }
    return ModelSpec(**(fields | more))


def litgpt(row: Mapping[str, str]) -> Expressed:
    """LitGPT fine-tuning scripts: fused qkv, LoRA dropout 0.05, logits and loss in chunks of 128, bf16 throughout."""
    arch = json.loads(row["arch_json"])
    if arch["method"].startswith("adapter"):
        raise CannotExpress("LLaMA-Adapter: no word for it")
    if row["zero_fsdp_stage"] == "see notes":
        raise CannotExpress("layout over GPUs not verified by the source")
    if row["zero_fsdp_stage"] == "FSDP":
        # 7B: 20.7, 20.9, 21.8 GiB at batch 1, 2, 4, and 4 GPUs read as much as one.
        raise CannotExpress("sharded, but the reading hardly grows with the batch: the peak lies in loading")
    spec = decoder(arch, fused_qkv=True, tied_embeddings=False)
    if "falcon" in (arch.get("family") or ""):
        spec = msgspec.structs.replace(spec, tied_embeddings=True, bias=False, norms_per_block=1)
    if row["model"].startswith(("phi-1.5", "phi-2")):
        spec = msgspec.structs.replace(spec, norms_per_block=1)
    if row["model"].startswith("gemma-2-9b") or (row["model"] == "gemma-2b" and arch["layers"] == 26):
        spec = msgspec.structs.replace(spec, norms_per_block=4)
    if "gemma" in row["model"]:
        spec = msgspec.structs.replace(spec, tied_embeddings=True)
    lora = arch["method"] in ("lora", "qlora")
    quantized = (arch.get("quant") or "None") != "None"
    targets = tuple(LORA_TARGETS[name] for name in arch.get("lora_targets") or ["query", "value"])
    run = RunSpec(
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


def thunder(row: Mapping[str, str]) -> Expressed:
    """LitGPT's pretraining script: bf16 throughout, eager rows only."""
    if row["compile"] != "Eager":
        raise CannotExpress("Thunder's executors: no word for what they save")
    arch = json.loads(row["arch_json"])
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


def torchao(row: Mapping[str, str]) -> Expressed:
    """torchao's low-bit Adam benchmark: a ViT of timm, compiled, under autocast."""
    if "not stated" in row["seq_len"] or not row["micro_batch"]:
        raise CannotExpress("image size or batch not stated")
    if not row["arch_json"]:
        raise CannotExpress("architecture not stated")
    arch = json.loads(row["arch_json"])
    if "ffn" not in arch or "img" not in arch:
        raise CannotExpress("width or image size not stated")
    model = ModelSpec(
        family="vision_transformer", layers=arch["layers"], hidden=arch["hidden"], heads=arch["heads"],
        ffn=arch["ffn"], patch_size=arch["patch"], image_size=arch["img"], classes=45, norm="layernorm",
        activation="gelu", fused_qkv=True,
    )  # fmt: skip
    names = {"fused": "adamw", "8-bit": "adamw8bit", "FP8": "adamwfp8", "4-bit": "adamw4bit"}
    optimizer = next((value for key, value in names.items() if key in row["optimizer"]), None)
    if optimizer is None:
        raise CannotExpress("optimizer without a known state size")
    run = RunSpec(
        micro_batch=number(row, "micro_batch"), image_size=arch["img"], precision="autocast-bf16",
        optimizer=optimizer, stack="compile", foreach="fused" not in row["optimizer"],
    )  # fmt: skip
    return Expressed(model=model, run=run, parallel=ParallelDims())


def torchtune(row: Mapping[str, str]) -> Expressed:
    """torchtune's table of optimization flags; its README table leaves the shipped configuration to be looked up."""
    if not row["optimizer"] or not row["recompute"] or not row["seq_len"]:
        raise CannotExpress("optimizer, recomputation or length left to a shipped configuration")
    arch = json.loads(row["arch_json"])
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
        foreach=False,  # its configurations for this model say fused: True
    )  # fmt: skip
    return Expressed(model=decoder(arch), run=run, parallel=ParallelDims())


def bert_large(row: Mapping[str, str]) -> Expressed:
    """transformers' single-GPU guide: BERT-large for classification, eager attention, dropout 0.1, HF AdamW."""
    arch = json.loads(row["arch_json"])
    model = ModelSpec(
        family="transformer_encoder", layers=arch["layers"], hidden=arch["hidden"], heads=arch["heads"],
        ffn=arch["ffn"], vocab=arch["vocab"], max_positions=512, norm="layernorm", activation="gelu", dropout=0.1,
        head="classification", classes=2,
    )  # fmt: skip
    optimizer = {"AdamW (HF)": "adamw", "Adafactor": "adafactor", "bnb Adam8bit": "adam8bit"}[row["optimizer"]]
    batch, whole = number(row, "micro_batch"), number(row, "global_batch")
    run = RunSpec(
        micro_batch=batch, sequence_length=number(row, "seq_len"), gradient_accumulation=whole // batch,
        precision="autocast-fp16" if "amp" in row["precision"] else "fp32", optimizer=optimizer, attention="eager",
        recompute="full" if row["recompute"] == "full" else "none", stack="transformers",
        foreach=False,  # HF's own AdamW and Adafactor step over one parameter at a time
    )  # fmt: skip
    return Expressed(model=model, run=run, parallel=ParallelDims())


def megatron(row: Mapping[str, str]) -> Expressed:
    """Megatron-LM's CI: the last rank, so the last pipeline stage; dropout 0.1 and tied embeddings are its defaults."""
    arch = json.loads(row["arch_json"])
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
        bias=not arch.get("disable_bias_linear", False), dropout=0.1, fused_qkv=True,
        tied_embeddings=not arch.get("untie_embeddings_and_output_weights", False),
        experts=arch.get("experts", 0), experts_per_token=arch.get("topk", 0),
        expert_ffn=arch.get("moe_ffn") or width if arch.get("experts") else None,
    )  # fmt: skip
    micro, whole = number(row, "micro_batch"), number(row, "global_batch")
    data = number(row, "num_gpus") // (tp * pp * cp)
    optimizer_sharded = "ZeRO-1" in row["zero_fsdp_stage"]
    run = RunSpec(
        micro_batch=micro, global_batch=whole, sequence_length=number(row, "seq_len"),
        precision="bf16", optimizer="adam", stack="megatron", foreach=False,
        attention="eager" if row["attention_impl"] in ("unfused", "local", "local/default") else "flash",
        cross_entropy="eager" if "cross-entropy-loss-fusion" in other else "parallel",
        recompute="full" if row["recompute"].startswith("full") else "none",
    )  # fmt: skip
    parallel = ParallelDims(
        dp_replicate=1 if optimizer_sharded else data, dp_shard=data if optimizer_sharded else 1,
        zero_stage=1 if optimizer_sharded else 0, tp=tp, pp=pp, cp=cp, ep=ep,
        vp=int(row["vp"] or 1), sequence_parallel='"sequence-parallel": true' in other, framework="megatron",
    )  # fmt: skip
    return Expressed(model=model, run=run, parallel=parallel, stage=pp - 1)


def perceptron(row: Mapping[str, str]) -> Expressed:
    """Generated MLPs: what each layer keeps is read from the list of layers."""
    arch = json.loads(row["arch_json"])
    try:
        layers = ast.literal_eval(arch["layers_list"])
    except (SyntaxError, ValueError):
        raise CannotExpress("list of layers cut off by the source table") from None
    inputs = float(row["model"].split("input:")[1].split("_")[0])
    kept, previous, shared = inputs, inputs, True
    for kind, width, _ in layers:
        if kind == "linear":
            kept += 0.0 if shared else previous  # its input, unless the layer before keeps the same tensor
            shared, previous = False, float(width)
        elif kind in ("ReLU", "Tanh", "Sigmoid", "Softmax"):
            kept, shared = kept + width, True  # these keep their output
        elif kind == "dropout":
            kept, shared = kept + width / 4, False  # a mask of one byte
        else:
            kept, shared = kept + width, False  # batch norm and smooth activations keep their input
    model = ModelSpec(
        family="mlp", parameters=int(row["params"]), layers=len(layers), activation_elements=kept, classes=None
    )
    run = RunSpec(micro_batch=number(row, "micro_batch"), precision="fp32", optimizer="adam")
    return Expressed(model=model, run=run, parallel=ParallelDims())


SOURCES = {
    "litgpt-resource-tables": litgpt,
    "litgpt-config-hub": litgpt,
    "litgpt-thunder": thunder,
    "torchao-optim": torchao,
    "torchtune": torchtune,
    "hf-docs-bert-large": bert_large,
    "megatron-lm-ci": megatron,
    "gpumemnet-mlp": perceptron,
}


def express(row: Mapping[str, str]) -> Expressed:
    """Return a row in the vocabulary's words.

    Raises:
        CannotExpress: With the reason.
    """
    if row["source"] not in SOURCES:
        raise CannotExpress("batch, length, optimizer or kind of reading not stated")
    return SOURCES[row["source"]](row)
