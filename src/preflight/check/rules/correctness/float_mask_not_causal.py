"""A mask of zeros and ones is added to the attention scores.

## What it does
Reports a float mask of zeros and ones, such as `torch.tril(torch.ones(n, n))`, given to `scaled_dot_product_attention`, `MultiheadAttention` or a transformer layer.

## Why
A float mask is added to the scores before the soft-max.
Adding 1 to the allowed and 0 to the forbidden positions forbids nothing: a causal model sees the future, its training loss is far too good, and generation fails.

## Fix
Use a boolean mask, or zeros and `-inf`, or `is_causal=True`.

## When to ignore
Never.

## References
- PyTorch documentation of scaled_dot_product_attention: a float mask is added to the attention score
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.attention import ATTENTION, mask_of, mask_shape
from preflight.check.queries.tensors import source_text
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="float-mask-not-causal", code="ATT001", severity="error", confidence="certain", layer="D", tags=("attention",)
)

BAD = (
    """
import torch
import torch.nn.functional as F
def attend(q, k, v):
    mask = torch.tril(torch.ones(128, 128, device=q.device))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
""",
    """
import torch.nn as nn
from torch import ones, triu
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
    def mask(self, n):
        return triu(ones(n, n), diagonal=1)
    def forward(self, x):
        out, _ = self.attention(x, x, x, attn_mask=self.mask(x.size(1)))
        return out
block = Block()
for x in loader:
    block(x).sum().backward()
""",
    """
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--context", type=int, default=64)
args = p.parse_args()
layer = torch.nn.TransformerEncoderLayer(64, 4)
encoder = torch.nn.TransformerEncoder(layer, 2)
causal = torch.ones(args.context, args.context).tril()
for x in loader:
    encoder(x, causal.to("cuda")).sum().backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
import torch.nn.functional as F
def attend(q, k, v, n):
    allowed = torch.tril(torch.ones(n, n)).bool()
    added = torch.triu(torch.full((n, n), float("-inf")), diagonal=1)
    zeros = torch.zeros(n, n).masked_fill(torch.triu(torch.ones(n, n), 1) == 1, float("-inf"))
    a = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    b = F.scaled_dot_product_attention(q, k, v, attn_mask=added)
    return a + b + F.scaled_dot_product_attention(q, k, v, attn_mask=zeros)
""",
    """
import torch, torch.nn as nn
layer = nn.TransformerEncoderLayer(64, 4)
mask = nn.Transformer.generate_square_subsequent_mask(16)
other = torch.tril(torch.ones(16, 16)) == 0
for x in loader:
    (layer(x, mask) + layer(x, src_mask=other)).sum().backward()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at the mask of each attention."""
    for event in context.trace.calls("()", *ATTENTION):
        for mask in mask_of(event):
            shape = mask_shape(mask)
            if shape is None or shape.boolean:
                continue
            yield context.finding(
                RULE,
                event,
                "a float mask of zeros and ones is added to the attention scores: "
                "it forbids nothing, so the model sees the future",
                evidence=[Evidence("mask", source_text(context, mask)), Evidence("values", "0.0 and 1.0")],
                related=[(shape.factory, "the mask is made here")],
                fix=Fix(
                    title="use a boolean mask",
                    instruction="for scaled_dot_product_attention, where True means allowed: tril(...).bool(); "
                    "for nn.MultiheadAttention, where True means forbidden: triu(..., diagonal=1).bool()",
                    expected="no position attends to later ones",
                ),
            )
