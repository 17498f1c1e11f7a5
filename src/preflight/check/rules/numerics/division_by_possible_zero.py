"""Division by a deviation or count that can be zero.

## What it does
Reports, on the way of the gradient or in the input of the network, a division by a standard deviation, or by the sum of a mask per row, when nothing keeps the divisor from zero.

## Why
A constant row has a standard deviation of 0, a batch of one gives NaN, and a row without a valid entry has a count of 0.
0 / 0 is NaN; it reaches the loss, the gradients, and after one step every weight.

## Fix
Add a constant: `x / (std + 1e-6)`; clamp the count: `mask.sum(1).clamp(min=1)`.

## When to ignore
When the divisor cannot be zero, which the data has to guarantee.

## References
- PyTorch documentation of nn.LayerNorm: the epsilon in the denominator is there for numerical stability
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.tensors import VIEWS, graph, operand, operation, option, origin, source_text
from preflight.check.rule import Rule
from preflight.source.values import Choice, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="division-by-possible-zero",
    code="NUM004",
    severity="warning",
    confidence="likely",
    layer="D",
    tags=("numerics",),
)

BAD = (
    """
import torch, torch.nn as nn
net = nn.Linear(8, 4)
for x, y in loader:
    h = net(x)
    h = (h - h.mean(1, keepdim=True)) / h.std(1, keepdim=True)
    nn.functional.cross_entropy(h, y).backward()
""",
    """
import torch
class Contrast(torch.nn.Module):
    def forward(self, features, labels):
        mask = torch.eq(labels, labels.T).float()
        mask = mask * (1 - torch.eye(len(labels)))
        log_prob = torch.log_softmax(features @ features.T, 1)
        return -((mask * log_prob).sum(1) / mask.sum(1)).mean()
net, loss = torch.nn.Linear(8, 4), Contrast()
for x, y in loader:
    loss(net(x), y).backward()
""",
    """
import argparse, torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--axis", type=int, default=-1)
args = p.parse_args()
net = nn.Linear(8, 1)
def pooled(h, tokens):
    valid = (tokens != 0).unsqueeze(-1).float()
    return torch.div((h * valid).sum(args.axis), valid.sum(args.axis))
for tokens, y in loader:
    pooled(net(tokens.float()), tokens).mean().backward()
""",
    """
import torch, torch.nn as nn
net = nn.Linear(8, 4)
for x, y in loader:
    h = net(x)
    h = (h - h.mean(1, keepdim=True)).div_(h.std(1, keepdim=True))
    nn.functional.cross_entropy(h, y).backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
net = nn.Linear(8, 4)
for x, y, mask in loader:
    h = net(x)
    h = (h - h.mean(1, keepdim=True)) / (h.std(1, keepdim=True) + 1e-6)
    per = nn.functional.cross_entropy(h, y, reduction="none")
    valid = (y != -100).float()
    (per * valid).sum(1).div(valid.sum(1).clamp(min=1)).mean().backward()
""",
    """
import torch, torch.nn as nn
net = nn.Linear(8, 4)
for x, y in loader:
    logits = net(x)
    weights = logits.exp()
    p = weights / weights.sum(1, keepdim=True)
    loss = -(p * y).sum() / y.size(0)
    loss.backward()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for divisions, on the way of the gradient, by a deviation or by the size of a mask."""
    found = graph(context)
    for value in found.made("/", "div", "div_"):
        if not found.trains(value):
            continue
        divisor = _divisor(value)
        inner = origin(divisor, VIEWS)
        if inner is None:
            continue
        name = operation(inner)
        dim = option(inner, 0, "dim")
        if name == "std":
            what, why = "a standard deviation", "a constant input or a batch of one"
        elif name == "sum" and dim is not None and _is_mask(operand(inner)):
            what, why = "the number of valid entries of a row", "a row without any"
        else:
            continue
        yield context.finding(
            RULE,
            value,
            f"division by {what} without a constant: {why} gives NaN, and one step later every weight is NaN",
            evidence=[Evidence("divisor", source_text(context, inner)), Evidence("constant added", None)],
            fix=Fix(
                title="keep the divisor from zero",
                instruction="add a small constant to a deviation; clamp a count with .clamp(min=1)",
                expected="the loss stays finite",
            ),
        )


def _divisor(value: Obj) -> Value | None:
    if operation(value) == "/" and value.kind == "op":
        return value.args[1] if len(value.args) == 2 else None
    return option(value, 0, "other")


_SEEN_THROUGH = VIEWS | {"long", "int", "repeat", "bool", "[]"}
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "eq", "ne", "lt", "le", "gt", "ge", "~"})


def _is_mask(value: Value | None, depth: int = 0) -> bool:
    """Whether a value is a mask: a comparison as numbers, or a product with one."""
    found = settle(value) if value is not None else None
    if isinstance(found, Choice):
        return any(_is_mask(o, depth + 1) for o in found.options)
    name = operation(found)
    if not isinstance(found, Obj) or depth > 24:
        return False
    if name in _SEEN_THROUGH:
        return _is_mask(operand(found), depth + 1)
    if name in _COMPARISONS:
        return True
    if name in ("*", "mul", "&"):
        parts = [*found.args, *([found.receiver] if found.receiver is not None else [])]
        return any(_is_mask(p, depth + 1) for p in parts)
    return False
