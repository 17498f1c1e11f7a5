"""Sequence is longer than the model's position table.

## What it does
Compares the sequence length of the run with the rows of the model's learned position embedding.

## Why
Position 512 of a table with 512 rows does not exist: the first batch that is long enough ends with an index error, on a GPU with a device-side assertion that names nothing.

## Fix
Truncate to the table's length, or make the table longer before training.

## When to ignore
When positions are interpolated or rotary.

## References
- PyTorch documentation, torch.nn.Embedding
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="sequence-longer-than-positions",
    code="CFG008",
    severity="error",
    confidence="likely",
    needs=("model",),
    layer="C",
    tags=("configuration", "transformers"),
)

_MAIN = """
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
for text, y in loader:
    x = tokenizer(text, max_length=1024, padding="max_length", truncation=True, return_tensors="pt")
    optimizer.zero_grad()
    model(**x, labels=y).loss.backward()
    optimizer.step()
"""

BAD = (
    _MAIN,
    _MAIN.replace(
        "import torch\n",
        "import torch, argparse\np = argparse.ArgumentParser()\np.add_argument('--length', type=int, default=2048)\n"
        "args = p.parse_args()\n",
        1,
    ).replace("max_length=1024", "max_length=args.length"),
    _MAIN.replace(
        '    x = tokenizer(text, max_length=1024, padding="max_length", truncation=True, return_tensors="pt")',
        "    x = encode(text)",
    ).replace(
        "optimizer = torch",
        'def encode(text):\n    return tokenizer(text, max_length=600, padding="max_length", truncation=True, return_tensors="pt")\noptimizer = torch',
    ),
)

GOOD = (
    _MAIN.replace("max_length=1024", "max_length=512"),
    _MAIN.replace("bert-base-uncased", "gpt2"),
    _MAIN.replace('max_length=1024, padding="max_length", truncation=True', "padding=True"),
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the two lengths."""
    model, fact = context.model, context.facts.get("sequence_length")
    length = fact.value if fact is not None else None
    if model is None or not model.learned_positions or not model.max_positions or not isinstance(length, int):
        return
    if length <= model.max_positions or context.trace.calls(".resize_position_embeddings"):
        return
    place = context.reading.models[0]
    yield context.finding(
        RULE,
        place,
        f"sequences of {length} tokens meet a position table of {model.max_positions} rows: positions from {model.max_positions} on are out of range",
        evidence=[
            Evidence("sequence length", length, "tokens"),
            Evidence("rows of the position table", model.max_positions, arithmetic=f"{length} > {model.max_positions}"),
        ],
        fix=Fix(
            title=f"truncate to {model.max_positions} tokens",
            instruction="lower the sequence length, or choose a model with a longer position table",
            expected="every position has a row",
        ),
    )
