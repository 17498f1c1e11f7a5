"""GPT-2 XL with AdamW on a sequence of 128 tokens, in fp32 or with autocast: python generator.py fp32|fp16."""

from __future__ import annotations

import sys

import torch
import transformers

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def main(precision: str) -> None:
    """Train for two steps."""
    config = transformers.GPT2Config(n_embd=1600, n_layer=48, n_head=25, use_cache=False)
    model = transformers.GPT2LMHeadModel(config).to(DEVICE)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    for _ in range(2):
        tokens = torch.randint(0, 50257, (1, 128)).to(DEVICE)
        with torch.autocast(DEVICE, dtype=torch.float16, enabled=precision == "fp16"):
            loss = model(tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main(*sys.argv[1:])
