"""A mask constant does not fit float16.

## What it does
Reports `masked_fill` with a number beyond ±65504 on scores that are float16: the result of a matrix product under float16 autocast, or an explicit `half()`.

## Why
The largest float16 number is 65504.
PyTorch refuses the constant: "value cannot be converted to type at::Half without overflow"; the run stops in the first step with mixed precision.

## Fix
Use `torch.finfo(scores.dtype).min`, or -1e4.

## When to ignore
When autocast is only ever used with bfloat16.

## References
- PyTorch documentation of torch.finfo; list of operations that autocast to float16
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.half_values import is_half
from preflight.check.queries.tensors import graph, is_method, operand, option
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value, plain, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="constant-outside-half-range",
    code="NUM006",
    severity="error",
    confidence="likely",
    layer="D",
    tags=("numerics", "precision"),
)

BAD = (
    """
import torch, torch.nn as nn
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x, mask):
        scores = self.q(x) @ self.k(x).transpose(-2, -1) / 8 ** 0.5
        return scores.masked_fill(mask == 0, -1e9).softmax(-1)
net = Attention().cuda()
for x, mask in loader:
    with torch.cuda.amp.autocast():
        net(x.cuda(), mask.cuda()).sum().backward()
""",
    """
import torch
from torch import autocast
def scores(q, k, mask):
    s = torch.matmul(q, k.transpose(-2, -1))
    return s.masked_fill_(mask, float("-1e20"))
for q, k, mask in loader:
    with autocast("cuda", dtype=torch.float16):
        scores(q, k, mask).softmax(-1)
""",
    """
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--fill", type=float, default=-1e10)
args = p.parse_args()
net = torch.nn.Linear(8, 8)
for x, mask in loader:
    torch.masked_fill(net(x).half(), mask, args.fill).softmax(-1).sum().backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
net = nn.Linear(8, 8)
for x, mask in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        net(x).masked_fill(mask, -1e9).softmax(-1).sum().backward()
    with torch.autocast("cuda"):
        net(x).masked_fill(mask, -1e4).softmax(-1).sum().backward()
        net(x).float().masked_fill(mask, -1e9).softmax(-1).sum().backward()
        net(x).masked_fill(mask, float("-inf")).softmax(-1).sum().backward()
""",
    """
import torch, torch.nn as nn
net = nn.Linear(8, 8)
for x, mask in loader:
    with torch.autocast("cuda", enabled=False):
        net(x).masked_fill(mask, -1e9).softmax(-1).sum().backward()
    net(x).masked_fill(mask, -1e9).softmax(-1).sum().backward()
""",
)

LARGEST = 65504.0  # (2 - 2^-10) * 2^15


def check(context: Context) -> Iterator[Finding]:
    """Look for constants beyond the range on what is float16."""
    for value in graph(context).made("masked_fill", "masked_fill_"):
        constant = option(value, 1, "value")
        number = plain(constant)
        if not isinstance(number, (int, float)) or not LARGEST < abs(number) < float("inf"):
            continue
        if not is_half(operand(value), value.context):
            continue
        yield context.finding(
            RULE,
            value,
            f"{number:g} does not fit float16 (largest number 65504): masked_fill stops the run here",
            evidence=[
                Evidence("constant", number),
                Evidence("largest float16 number", LARGEST, arithmetic="(2 - 2^-10) * 2^15 = 65504"),
            ],
            fix=Fix(
                title="use the smallest number of the type",
                edits=edits(_edit(context, value, constant)),
                instruction="use torch.finfo(scores.dtype).min",
                expected="the mask works in every precision",
            ),
        )


def _edit(context: Context, value: Obj, constant: Value | None) -> Edit | None:
    """Replace the constant where it is written out and the scores are a plain name."""
    node = value.site.node if value.site is not None else None
    settled = settle(constant) if constant is not None else None
    if not isinstance(node, ast.Call) or settled is None or settled.site is None or value.site is None:
        return None
    scores = node.func.value if is_method(value) and isinstance(node.func, ast.Attribute) else None
    written = [*node.args, *(k.value for k in node.keywords)]
    names = {a.asname or a.name for n in value.site.script.tree.body if isinstance(n, ast.Import) for a in n.names}
    target = next((w for w in written if w is settled.site.node or ast.dump(w) == ast.dump(settled.site.node)), None)
    if not isinstance(scores, ast.Name) or target is None or "torch" not in names:
        return None
    return context.replace((value.site.script, target), f"torch.finfo({scores.id}.dtype).min")
