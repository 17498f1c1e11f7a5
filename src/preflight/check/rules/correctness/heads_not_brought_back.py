"""The heads of an attention are flattened without being brought back behind the time.

## What it does
Finds values that were viewed as (batch, time, heads, width) and transposed to (batch, heads, time, width), and whose attention is then viewed as (batch, time, channels) without the transposition back.

## Why
The view succeeds, for the number of elements is the same, but it cuts the memory elsewhere: a position gets numbers of other positions, later ones too.
A causal model sees the tokens it is to predict, and its loss says nothing of what it generates.

## Fix
Write `y.transpose(1, 2).contiguous().view(B, T, C)`.

## When to ignore
Never with these layouts, unless there is one head or one position.

## References
- Vaswani et al., "Attention is all you need", 2017, section 3.2.2
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.head_layouts import size_told, sizes, split_heads, written_attention
from preflight.check.queries.tensors import graph, operand, operation, source_text
from preflight.check.queries.terms import number, operands
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="heads-not-brought-back",
    code="ATT008",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("attention",),
)

_HEAD = """
import math, torch
from torch import nn
import torch.nn.functional as F
class Attention(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.qkv, self.heads = nn.Linear(64, 192), heads
    def split(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(64, dim=2)
        q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        return q, k, v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
"""
_TRAIN = """
net = Attention()
for x in loader:
    net(x).sum().backward()
"""

BAD = (
    f"""{_HEAD}
    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.split(x)
        att = F.softmax(q @ k.transpose(-2, -1) / 4, dim=-1)
        y = att @ v
        return y.contiguous().view(B, T, C)
{_TRAIN}""",
    f"""{_HEAD}
    def forward(self, x):
        batch, time, width = x.size()
        q, k, v = self.split(x)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).reshape(batch, time, width)
{_TRAIN}""",
    f"""
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--heads", type=int, default=8)
args = parser.parse_args()
{_HEAD}
    def merge(self, y, x):
        return y.reshape(x.size(0), x.size(1), -1)
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        q = q.reshape(x.size(0), x.size(1), args.heads, -1).transpose(1, 2)
        k = k.reshape(x.size(0), x.size(1), args.heads, -1).transpose(1, 2)
        v = v.reshape(x.size(0), x.size(1), args.heads, -1).transpose(1, 2)
        return self.merge(torch.matmul(torch.softmax(torch.matmul(q, k.transpose(2, 3)) * 0.125, -1), v), x)
{_TRAIN}""",
)

GOOD = (
    f"""{_HEAD}
    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.split(x)
        y = F.softmax(q @ k.transpose(-2, -1) / 4, dim=-1) @ v
        flat = y.reshape(B * self.heads, T, C // self.heads)
        return y.transpose(1, 2).contiguous().view(B, T, C) + flat.mean()
{_TRAIN}""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for views of attended values whose heads are still in front."""
    mixed: dict[int, list[Value]] = {}
    for found in written_attention(context):
        pair = operands(found.mixed)
        heads = split_heads(pair[1]) if pair is not None else None
        if heads is not None:
            mixed[id(found.mixed)] = heads
    for made in graph(context).made("scaled_dot_product_attention"):
        heads = split_heads(made.argument(0, "query"))
        if heads is not None:
            mixed[id(made)] = heads
    if not mixed:
        return
    for made in graph(context).made("view", "reshape"):
        given, base = sizes(made), _kept(operand(made))
        before = mixed.get(id(base)) if base is not None else None
        if before is None or given is None or len(given) != 3 or number(before[2]) == 1:
            continue
        if size_told(given[0]) == size_told(before[0]) and size_told(given[1]) == size_told(before[1]):
            yield _finding(context, made, before)


def _kept(value: Value | None) -> Obj | None:
    """What made a value whose elements are still in the same order."""
    for _ in range(10):
        base = settle(value) if value is not None else None
        if not isinstance(base, Obj) or operation(base) not in ("contiguous", "dropout", "to", "float", "type_as"):
            return base if isinstance(base, Obj) else None
        value = operand(base)
    return None


def _finding(context: Context, made: Obj, before: list[Value]) -> Finding:
    shown = ", ".join(source_text(context, size, 20) for size in before)
    return context.finding(
        RULE,
        made,
        "the heads still stand before the time when they are flattened: each position gets numbers of other positions",
        evidence=[
            Evidence(
                "sizes before transpose(1, 2)",
                shown,
                arithmetic="(batch, heads, time, width) viewed as (batch, time, channels)",
            ),
            Evidence("view", source_text(context, made)),
        ],
        fix=Fix(
            title="bring the heads back",
            safe=False,
            instruction="write y.transpose(1, 2).contiguous().view(B, T, C)",
            expected="each position keeps its own channels",
        ),
    )
