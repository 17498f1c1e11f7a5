"""The batch is too small for the model: the GPU waits for memory instead of computing.

## What it does
Compares the tokens of one forward pass with the number from which the matrix products of the feed-forward layers are limited by arithmetic rather than by reading the weights.

## Why
A product of (m x k) with (k x n) does 2 m k n operations and moves m k + k n + m n numbers.
With few rows m, reading the k n weights dominates: the time of a step hardly falls with the batch, and most of the GPU is idle.
An H100 needs 295 operations per byte in bf16, so roughly 300 tokens per forward at the least.

## Fix
A larger batch per GPU with fewer accumulation steps, longer or packed sequences, or more samples through gradient checkpointing.

## When to ignore
When the memory does not allow a larger batch, or the sequence is one sample by nature (reinforcement learning, some graphs).

## References
- Williams, Waterman and Patterson, "Roofline", 2009
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.memory_limits import place_of_model
from preflight.check.rule import Example, Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="batch-too-small-for-model",
    code="EFF024",
    severity="warning",
    confidence="likely",
    needs=("gpu", "model"),
    layer="C",
    tags=("efficiency", "batch"),
)

_LOOP = """
for batch in loader:
    ids = tokenizer(batch, padding="max_length", truncation=True, max_length=length, return_tensors="pt").to("cuda")
    loss = model(**ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_HEAD = """
import argparse
from dataclasses import dataclass
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
"""

BAD = (
    Example(_HEAD + "length = 64\nloader = DataLoader(texts, batch_size=1, shuffle=True)" + _LOOP, gpu="h100"),
    Example(
        _HEAD + "parser = argparse.ArgumentParser()\nparser.add_argument('--bs', type=int, default=2)\nlength = 32\n"
        "loader = DataLoader(texts, batch_size=parser.parse_args().bs, shuffle=True)" + _LOOP,
        gpu="a100",
    ),
    Example(
        _HEAD
        + "@dataclass\nclass Config:\n    batch: int = 1\n    length: int = 48\nconfig = Config()\nlength = config.length\n"
        "def load(size):\n    return DataLoader(texts, batch_size=size, shuffle=True)\nloader = load(config.batch)"
        + _LOOP,
        gpu="H200",
    ),
)
GOOD = (
    Example(_HEAD + "length = 1024\nloader = DataLoader(texts, batch_size=1, shuffle=True)" + _LOOP, gpu="h100"),
    Example(_HEAD + "length = 64\nloader = DataLoader(texts, batch_size=64, shuffle=True)" + _LOOP, gpu="h100"),
    Example(_HEAD + "length = 64\nloader = DataLoader(texts, batch_size=1, shuffle=True)" + _LOOP),
)


def check(context: Context) -> Iterator[Finding]:
    """Find runs with fewer tokens per forward than half of what keeps the GPU busy."""
    from preflight.cost.flops import minimal_tokens, ridge_point

    model, run, gpu = context.model, context.run, context.gpu
    if model is None or gpu is None or run.micro_batch is None or not model.hidden:
        return
    stages = run.length_schedule
    tokens = run.micro_batch * (model.tokens_per_image or (stages[0][1] if stages else run.sequence_length) or 0)
    dtype = _dtype(run.precision)
    needed, ridge = minimal_tokens(model, gpu, dtype), ridge_point(gpu, dtype)
    if not tokens or needed is None or ridge is None or tokens >= needed / 2:
        return
    length = tokens // run.micro_batch
    enough = -(-round(needed) // length)
    share = 100 * tokens / needed
    until = f"up to step {stages[1][0] - 1}, " if len(stages) > 1 else ""
    yield context.finding(
        RULE,
        place_of_model(context),
        f"{until}one forward sees {tokens} tokens ({run.micro_batch} x {length}): the matrices of this model need about {needed:.0f} "
        f"to keep a {gpu.title} busy, so it runs at no more than {share:.0f} % of its speed",
        evidence=[
            Evidence("tokens per forward", tokens, "tokens", "derived", f"{run.micro_batch} samples x {length} tokens"),
            Evidence(
                "tokens that keep the GPU busy",
                round(needed),
                "tokens",
                "derived",
                f"{ridge:.0f} operations per byte in {dtype}, width {model.hidden}",
            ),
        ],
        fix=Fix(
            title=f"{until}raise the batch per GPU from {run.micro_batch} to at least {enough}",
            instruction="lower gradient accumulation by the same factor where the batch of an optimizer step shall stay",
            expected=f"up to {needed / tokens:.1f} x the throughput of the matrix products",
        ),
    )


def _dtype(precision: str) -> str:
    if "bf16" in precision:
        return "bf16"
    if "fp16" in precision:
        return "fp16"
    return "tf32" if precision == "tf32" else "fp32"
