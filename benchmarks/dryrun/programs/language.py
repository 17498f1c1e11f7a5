"""One or two steps of a language model of real size: python language.py gpt2|llama3-8b STEPS."""

from __future__ import annotations

import sys
from typing import Any

import torch
import transformers

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MODELS: dict[str, tuple[str, dict[str, Any], int, int]] = {
    "gpt2": ("GPT2", {}, 8, 1024),
    "llama3-8b": (
        "Llama",
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
        },
        1,
        4096,
    ),
}


def main(name: str, steps: str) -> None:
    """Train on random tokens."""
    family, values, batch, length = MODELS[name]
    config = getattr(transformers, f"{family}Config")(**values, use_cache=False)
    kind = f"{family}LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM"
    with torch.device(DEVICE):
        model = getattr(transformers, kind)(config).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    model.train()
    for _ in range(int(steps)):
        tokens = torch.randint(0, 1000, (batch, length), device=DEVICE)
        model(tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main(*sys.argv[1:])
