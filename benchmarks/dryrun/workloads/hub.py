"""Models of the transformers library, made from configurations: python hub.py CASE."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn
from training import DEVICE, named, train

TINY_LLAMA = {
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 8000,
}
CASES: dict[str, dict[str, Any]] = {
    "bert-small": {
        "config": (
            "BertConfig",
            {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4},
        ),
        "model": "BertForMaskedLM",
    },
    "bert-base": {"config": ("BertConfig", {}), "model": "BertForMaskedLM", "batch": 2, "length": 64},
    "bert-small-amp-fp16": {
        "config": (
            "BertConfig",
            {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4},
        ),
        "model": "BertForMaskedLM",
        "precision": "amp-fp16",
    },
    "gpt2": {"config": ("GPT2Config", {}), "model": "GPT2LMHeadModel", "batch": 1, "length": 64, "steps": 2},
    "gpt2-tiny-checkpointed": {
        "config": ("GPT2Config", {"n_layer": 4, "n_embd": 256, "n_head": 4, "use_cache": False}),
        "model": "GPT2LMHeadModel",
        "recompute": True,
    },
    "llama": {"config": ("LlamaConfig", TINY_LLAMA), "model": "LlamaForCausalLM"},
    "llama-bf16-fused": {
        "config": ("LlamaConfig", TINY_LLAMA),
        "model": "LlamaForCausalLM",
        "precision": "bf16",
        "optimizer": "fused",
    },
    "llama-amp-bf16-accumulation": {
        "config": ("LlamaConfig", TINY_LLAMA),
        "model": "LlamaForCausalLM",
        "precision": "amp-bf16",
        "accumulate": 2,
    },
    "mistral-adafactor": {
        "config": ("MistralConfig", TINY_LLAMA),
        "model": "MistralForCausalLM",
        "optimizer": "adafactor",
    },
    "t5": {
        "config": (
            "T5Config",
            {"d_model": 256, "d_ff": 512, "num_layers": 3, "vocab_size": 8000, "decoder_start_token_id": 0},
        ),
        "model": "T5ForConditionalGeneration",
        "optimizer": "adafactor",
    },
    "vit": {
        "config": (
            "ViTConfig",
            {"hidden_size": 192, "intermediate_size": 768, "num_hidden_layers": 4, "num_labels": 10},
        ),
        "model": "ViTForImageClassification",
        "batch": 4,
    },
}


def main(config: tuple[str, dict[str, Any]], model: str, recompute: bool = False, **how: Any) -> None:
    """Train on random data."""
    batch, length = how.pop("batch", 2), how.pop("length", 128)
    values = getattr(transformers, config[0])(**config[1])
    net: Any = getattr(transformers, model)(values)
    if recompute:
        net.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})

    def batches() -> tuple[torch.Tensor, torch.Tensor]:
        if "Image" in model:
            return torch.randn(batch, 3, 224, 224, device=DEVICE), torch.zeros(batch, dtype=torch.int64, device=DEVICE)
        tokens = torch.randint(5, values.vocab_size, (batch, length), device=DEVICE)
        return tokens, tokens

    def loss(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return net(x, labels=y).loss

    train(net, batches, loss, **how)


if __name__ == "__main__":
    main(**named(CASES))
