"""Writes rows of published measurements as programs that the virtual GPU can run (``programs/``).

A row is taken when its source's code is written here and it names enough; else ``CannotWrite`` says what is missing.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from preflight.catalog.hardware import resolve_gpu
from preflight.vocabulary.hardware import Gpu

MIB, GIB = 1 << 20, 1 << 30


LIKE: dict[str, tuple[str, int | None]] = {
    "A100": ("A100-80GB", None),
    "": ("A100-80GB", None),
    "Titan RTX 24GB": ("t4", int(23.65 * GIB)),
}
"""Cards that are not named, or that the catalog lacks: one of the same generation, with the memory that the source prints."""


def card(name: str) -> tuple[Gpu, int]:
    """Return a row's GPU and its memory."""
    like, size = LIKE.get(name, (name, None))
    gpu = resolve_gpu(like)
    return gpu, size or gpu.memory_bytes


class CannotWrite(Exception):
    """Why a row is not written as a program."""


class Program(msgspec.Struct):
    """A row as a program: its file, what it is told, and bytes of the reading that are not the allocator's."""

    file: str
    arguments: str
    reading: str
    beside: int | None = 0
    ranks: int = 1


def decoder(row: Mapping[str, str]) -> Program:
    """Return a row of LitGPT."""
    arch = json.loads(row["arch_json"])
    method = {"qlora": "lora", None: "full"}.get(arch.get("method"), arch.get("method"))
    if row["compile"] not in ("no", "Eager", "") or row["offload"] not in ("", "none"):
        raise CannotWrite("compiled, or with offload: the dry run takes torch.compile as no change")
    if method not in ("lora", "full"):
        raise CannotWrite("adapters other than LoRA: the program does not have them")
    if not row["seq_len"].isdigit() or not row["micro_batch"]:
        raise CannotWrite("length or batch not stated")
    ranks, hub = int(row["num_gpus"]), row["source"] == "litgpt-config-hub"
    if ranks > 1 and row["zero_fsdp_stage"] == "see notes":
        raise CannotWrite("the same run as the row of one GPU: the configuration takes one of the four")
    spread = {"FSDP": "fsdp", "FSDP ZeRO-3": "fsdp", "DDP": "ddp"}[row["zero_fsdp_stage"]] if ranks > 1 else None
    quant = arch.get("quant") or "None"
    batches = int(row["global_batch"]) // (int(row["micro_batch"]) * ranks) if row["global_batch"].isdigit() else 1
    told = {
        "arch": shape(arch, row["model"]),
        "batch": int(row["micro_batch"]),
        "length": int(row["seq_len"]),
        "rank": arch.get("lora_r") if method == "lora" else None,
        "targets": arch.get("lora_targets") or (["query", "value"] if method == "lora" else []),
        "chunked": row["source"] != "litgpt-thunder",
        "accumulate": 2 if batches > 1 else 1,
        "optimizer": {},
        "quant": quant.removeprefix("bnb.") if quant != "None" else None,
        "spread": spread,
        # The scripts of the fine-tuning recipes recompute every block under FSDP, whatever the table's column says.
        "recompute": spread == "fsdp" and (hub or row["recompute"].startswith("full")),
        "loaded": row["source"] != "litgpt-thunder",
    }
    return Program("decoder.py", json.dumps(told), "allocated", ranks=ranks)


def shape(arch: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Return the sizes and the habits of an architecture: what the row says, and what the models' configurations say."""
    gated = arch.get("act") in ("swiglu", "geglu")
    size = arch.get("head_dim") or arch["hidden"] // arch["heads"]
    phi, falcon = "phi-" in model.lower() and not gated, "falcon" in model.lower()
    stablelm = "stablelm" in model.lower()
    capped = "gemma" in model and arch["layers"] in (26, 42, 46)
    return {
        **{key: arch[key] for key in ("layers", "hidden", "heads", "ffn", "vocab")},
        "kv_heads": arch.get("kv_heads") or arch["heads"],
        "head_dim": size,
        "act": arch.get("act"),
        "gated": gated,
        "rmsnorm": gated,
        "bias": not gated and not falcon,
        "head_bias": phi,
        "parallel_residual": not gated,
        "shared_norm": phi or falcon,
        "post_norms": capped,
        # Shares of the head that are turned, from the models' own configurations: phi 0.4 and 0.5, StableLM alpha 0.25.
        "rotary": 32 if phi else size // 4 if stablelm else size,
        "tied": False,  # LitGPT loads the head on its own, whether or not the checkpoint shares it
        "cap": (50.0, 30.0) if capped else None,
    }


def perceptron(row: Mapping[str, str]) -> Program:
    """Return a generated MLP; nvidia-smi reads what is reserved, and the driver's context."""
    arch = json.loads(row["arch_json"])
    try:
        layers = ast.literal_eval(arch["layers_list"])
    except (SyntaxError, ValueError):
        raise CannotWrite("list of layers cut off by the source table") from None
    inputs = int(row["model"].split("input:")[1].split("_")[0])
    told = {"inputs": inputs, "layers": [list(layer) for layer in layers], "batch": int(row["micro_batch"])}
    return Program("perceptron.py", json.dumps(told), "device", None)


def classifier(row: Mapping[str, str]) -> Program:
    """Return BERT-large of the transformers documentation, which says what NVML read before anything was trained.

    These 1343 MiB hold a segment of 2 MiB of PyTorch's, for the tensor that made the context.
    """
    told = {
        "batch": int(row["micro_batch"]),
        "accumulate": int(row["global_batch"]) // int(row["micro_batch"]),
        "recompute": row["recompute"] == "full",
        "half": row["precision"] == "fp16 amp",
        "optimizer": row["optimizer"],
    }
    return Program("classifier.py", json.dumps(told), "reserved", 1341 * MIB)


def feedforward(row: Mapping[str, str]) -> Program:
    """Return the layer of Lightning's page on tensor parallelism."""
    if "TP toy" not in row["model"]:
        raise CannotWrite("batch, length or kind of reading not stated")
    return Program("feedforward.py", row["tp"], "allocated", ranks=int(row["tp"]))


def generator(row: Mapping[str, str]) -> Program:
    """Return GPT-2 XL of the transformers documentation; its run ended before a length mattered."""
    if row["model"] != "gpt2-xl" or row["outcome"] != "OOM":
        raise CannotWrite("length, optimizer or batch not stated")
    return Program("generator.py", row["precision"], "allocated")


WRITERS: dict[str, Callable[[Mapping[str, str]], Program]] = {
    "litgpt-resource-tables": decoder,
    "litgpt-config-hub": decoder,
    "litgpt-thunder": decoder,
    "gpumemnet-mlp": perceptron,
    "hf-docs-bert-large": classifier,
    "hf-misc": feedforward,
}


def written(row: Mapping[str, str]) -> Program:
    """Return a row as a program.

    Raises:
        CannotWrite: With the reason.
    """
    if "outcome" not in row and (not row["measured_peak_gib"] or row["primary"] != "1"):
        raise CannotWrite("no figure of its own")
    if "outcome" in row and row["source"] == "hf-misc":
        return generator(row)
    if row["source"] not in WRITERS:
        raise CannotWrite(f"{row['source']}: code of the source is not written here")
    return WRITERS[row["source"]](row)
