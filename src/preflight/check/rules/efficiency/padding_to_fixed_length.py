"""Texts are padded to a fixed length.

## What it does
Looks for a tokenizer that is called with `padding="max_length"` in a script that trains.

## Why
Every sequence then costs as much as the longest one allowed: with a mean length of 128 and a limit of 512, three of four tokens that are computed are padding.

## Fix
Pad each batch to its longest sequence (`padding="longest"` or `DataCollatorWithPadding`), group sequences of like length, or pack them.

## When to ignore
When shapes must not change, as for compiled graphs and TPUs, or when the texts are cut to the full length anyway.

## References
- Hugging Face transformers documentation, "Padding and truncation"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.values import Known, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="padding-to-fixed-length",
    code="EFF019",
    severity="info",
    confidence="likely",
    layer="C",
    tags=("data", "text"),
)

_LOOP = """
model = torch.nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
BAD = (
    """
import torch
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
data = [(tokenizer(t, padding="max_length", max_length=512, truncation=True, return_tensors="pt"), 0) for t in texts]
"""
    + _LOOP,
    """
import torch
import transformers as tf
class Texts(torch.utils.data.Dataset):
    def __init__(self, tok):
        self.tok = tok
    def __getitem__(self, i):
        return self.tok.encode_plus(self.texts[i], max_length=256, padding="max_length", truncation=True)
    def __len__(self):
        return 10
data = torch.utils.data.DataLoader(Texts(tf.BertTokenizer.from_pretrained("bert-base-cased")), 8, True)
"""
    + _LOOP,
    """
import argparse, torch
from transformers import AutoTokenizer
parser = argparse.ArgumentParser()
parser.add_argument("--pad", default="max_length")
args = parser.parse_args()
tok = AutoTokenizer.from_pretrained("gpt2")
def encode(batch):
    return tok(batch["text"], padding=args.pad, truncation=True)
data = dataset.map(encode, batched=True)
encode({"text": "a"})
"""
    + _LOOP,
)
GOOD = (
    """
import torch
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
data = [(tokenizer(t, padding="longest", truncation=True), 0) for t in texts]
"""
    + _LOOP,
    """
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
print(tokenizer("a", padding="max_length"))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find tokenizers that pad to the limit."""
    reading = context.reading
    if not (reading.loops or reading.made("trainer") or reading.made("lightning_trainer")):
        return
    for event in context.trace.calls(
        "()", ".encode_plus", ".batch_encode_plus", ".__call__", ".pad", ".prepare_for_model"
    ):
        given = event.kwargs.get("padding")
        value = settle(given) if given is not None else None
        if not isinstance(value, Known) or value.value != "max_length" or event.context.shadow:
            continue
        if not any(
            "Tokenizer" in getattr(o, "name", "") or "Processor" in getattr(o, "name", "")
            for o in options_of(event.receiver)
        ):
            continue
        limit = context.value(event.kwargs.get("max_length"))
        yield context.finding(
            RULE,
            event,
            f"each text is padded to the limit ({limit if isinstance(limit, int) else 'the longest the model takes'}): the padding is computed like text",
            evidence=[
                Evidence("padding", "max_length"),
                Evidence("max_length", limit if isinstance(limit, int) else None, "tokens"),
            ],
            fix=Fix(
                title="pad each batch to its longest text",
                instruction='padding="longest" in the collate function, or DataCollatorWithPadding; group texts of like length, or pack them',
                expected="tokens per batch fall from batch x limit to batch x longest text",
            ),
        )
