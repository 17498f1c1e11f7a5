"""Sequence lengths vary: memory fluctuates, and its peak comes with the longest sample.

## What it does
Recognises batches that are padded to their own longest sample, and tells the memory at the longest one.

## Why
The memory of a batch grows with its longest sample.
A run can pass a thousand steps and fail at the batch that holds the longest text.
The caching allocator also fragments when every batch has another size.

## Fix
Cap the length, sort or bucket by length so that the longest batch comes first, or pack samples to a fixed length.

## When to ignore
When the longest sample has been run once on the same GPU.

## References
- Krell et al., "Efficient Sequence Packing without Cross-contamination", 2021
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.varying_lengths import varying
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.quantity import format_bytes

RULE = Rule(
    name="peak-at-longest-sample",
    code="MEM020",
    severity="warning",
    confidence="likely",
    needs=(),
    layer="D",
    tags=("memory", "data"),
)

_LOOP = """
for batch in loader:
    loss = model(batch).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_HEAD = """
import torch
import torch.nn as nn
from torch.utils.data import DataLoader
model = nn.LSTM(64, 64)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
"""

BAD = (
    _HEAD
    + """
from torch.nn.utils.rnn import pad_sequence
def collate(samples):
    return pad_sequence(samples, batch_first=True)
loader = DataLoader(texts, batch_size=16, shuffle=True, collate_fn=collate)
"""
    + _LOOP,
    _HEAD
    + """
from torch.nn.utils import rnn
class Collate:
    def __call__(self, samples):
        return rnn.pad_sequence([s["ids"] for s in samples])
loader = DataLoader(texts, batch_size=16, shuffle=True, collate_fn=Collate())
"""
    + _LOOP,
    _HEAD
    + """
import argparse
from transformers import AutoTokenizer
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=16)
args = parser.parse_args()
tokenizer = AutoTokenizer.from_pretrained("gpt2")
collate = lambda rows: tokenizer(rows, padding=True, return_tensors="pt")
loader = DataLoader(texts, batch_size=args.batch, shuffle=True, collate_fn=collate)
"""
    + _LOOP,
)

GOOD = (
    _HEAD
    + """
def collate(samples):
    return torch.stack(samples)
loader = DataLoader(texts, batch_size=16, shuffle=True, collate_fn=collate)
"""
    + _LOOP,
    _HEAD
    + """
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("gpt2")
def collate(rows):
    return tokenizer(rows, padding="max_length", max_length=512, truncation=True, return_tensors="pt")
loader = DataLoader(texts, batch_size=16, shuffle=True, collate_fn=collate)
"""
    + _LOOP,
    _HEAD
    + """
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("gpt2")
def collate(rows):
    return tokenizer(rows, padding=True, max_length=512, truncation=True, return_tensors="pt")
loader = DataLoader(texts, batch_size=16, shuffle=True, collate_fn=collate)
"""
    + _LOOP,
)


def check(context: Context) -> Iterator[Finding]:
    """Find training batches that are padded to their own longest sample without a cap."""
    found = varying(context)
    if found is None or (found.capped and not (context.memory is not None and context.memory.fits == "no")):
        return
    evidence = [Evidence("padding", found.how)]
    longest = context.run.sequence_length
    known = context.memory.peak_bytes if context.memory is not None else None
    message = (
        "sequence lengths vary from batch to batch, so memory fluctuates and its peak comes with the longest sample"
    )
    if longest is not None and known is not None:
        evidence.append(
            Evidence(
                "peak at the longest sample",
                round(known.mid),
                "bytes",
                "derived",
                f"{format_bytes(known.mid)} at {longest} tokens",
            )
        )
    yield context.finding(
        RULE,
        found.event,
        message,
        evidence=evidence,
        fix=Fix(
            title="cap the length, and let the longest batch come first",
            instruction="truncate to a length whose peak fits, sort or bucket by length, and run the longest batch as the first step",
            expected="the peak is known at step 0 instead of coming later",
        ),
        # To pad to the longest of a batch is how it is done; it is a fault where the longest may not fit.
        severity="info" if known is None or context.memory is None or context.memory.fits == "yes" else None,
    )
