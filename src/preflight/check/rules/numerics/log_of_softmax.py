"""The logarithm of a soft-max or sigmoid.

## What it does
Reports `log(softmax(x))` and `log(sigmoid(x))`, with or without a small constant between them.

## Why
In float32, exp underflows to 0 once a logit is 104 below the largest; then the logarithm is -inf and its gradient is NaN.
A constant such as 1e-8 hides this, but caps the loss at 18.4 and makes the gradient vanish exactly for the classes that are most wrong.
`log_softmax` and `logsigmoid` compute the same in one pass, without the underflow.

## Fix
Use `log_softmax` or `logsigmoid`.

## When to ignore
When the probabilities are computed anyway and the result is only shown.

## References
- PyTorch documentation of log_softmax: doing the two operations separately is slower and numerically unstable
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.tensors import (
    VIEWS,
    grad_off,
    graph,
    operand,
    operation,
    origin,
    second,
    small_constant,
    source_text,
)
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="log-of-softmax", code="NUM001", severity="warning", confidence="certain", layer="D", tags=("numerics",)
)

BAD = (
    """
import torch, torch.nn as nn
net = nn.Linear(8, 4)
for x, y in loader:
    logp = torch.log(torch.softmax(net(x), dim=1))
    nn.functional.nll_loss(logp, y).backward()
""",
    """
import torch
import torch.nn.functional as F
class VAE(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = torch.nn.Linear(8, 16)
    def forward(self, x):
        q = F.softmax(self.enc(x), -1)
        return q * torch.log(q + 1e-10)
net = VAE()
for x in loader:
    net(x).sum().backward()
""",
    """
import argparse
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--eps", type=float, default=1e-12)
args = p.parse_args()
critic = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
def generator_loss(fake):
    return -(critic(fake) + args.eps).log().mean()
for x in loader:
    generator_loss(x).backward()
""",
    """
import torch
net = torch.nn.Linear(8, 4)
for x in loader:
    p = torch.softmax(net(x), dim=1)
    (p * p.add(1e-8).log()).sum(1).mean().backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
net = nn.Linear(8, 4)
for x, y in loader:
    logits = net(x)
    nn.functional.nll_loss(torch.log_softmax(logits, dim=1), y).backward()
    with torch.no_grad():
        p = torch.softmax(logits, dim=1)
        entropy = -(p * torch.log(p)).sum(1).mean()
""",
    """
import torch, torch.nn as nn
net = nn.Linear(8, 4)
for x, y in loader:
    attention = torch.softmax(net(x), dim=1)
    total = torch.log((attention * y).sum(1).clamp_min(1e-6))
    total.sum().backward()
""",
)

_STABLE = {"softmax": "log_softmax", "sigmoid": "logsigmoid"}


def check(context: Context) -> Iterator[Finding]:
    """Look for logarithms whose operand a soft-max or sigmoid made."""
    for value in graph(context).made("log", "log2", "log10"):
        if grad_off(value.context):
            continue
        inner, constant = _without_constant(operand(value))
        found = origin(inner, VIEWS)
        name = operation(found)
        if found is None or name not in _STABLE:
            continue
        floor = (
            ""
            if constant is None
            else f"; the constant {constant:g} caps it and takes the gradient of the most wrong away"
        )
        yield context.finding(
            RULE,
            value,
            f"log of a {name} underflows where the probability is tiny{floor}: {_STABLE[name]} computes the same without it",
            evidence=[
                Evidence("operand of the logarithm", source_text(context, operand(value) or value)),
                Evidence("constant added", constant),
                Evidence("logit difference at which float32 underflows", 104, arithmetic="ln(2^-149) = -103.3"),
            ],
            related=[(found, f"the {name} is here")] if found.site is not value.site else [],
            fix=Fix(
                title=f"use {_STABLE[name]}",
                edits=edits(_edit(value, found, name, context)),
                instruction=f"compute it with torch.nn.functional.{_STABLE[name]} from the logits",
                expected="no infinite loss and no vanishing gradient at small probabilities",
            ),
        )


def _without_constant(value: Value | None) -> tuple[Value | None, float | None]:
    """What a small constant was added to, and the constant."""
    found = origin(value, VIEWS)
    if found is not None and operation(found) in ("+", "add"):
        left, right = operand(found), second(found)
        for this, other in ((left, right), (right, left)):
            constant = small_constant(other)
            if constant is not None and this is not None:
                return settle(this), constant
    return value, None


def _edit(value: Obj, found: Obj, name: str, context: Context) -> Edit | None:
    """Where the soft-max is written inside the natural logarithm: one call instead of two."""
    outer, inner = value.site, found.site
    if (
        name != "softmax"
        or operation(value) != "log"
        or outer is None
        or inner is None
        or outer.script is not inner.script
    ):
        return None
    if not isinstance(outer.node, ast.Call) or not isinstance(inner.node, ast.Call) or inner.node is outer.node:
        return None
    holder = (
        outer.node.func.value if value.name.startswith(".") and isinstance(outer.node.func, ast.Attribute) else None
    )
    direct = outer.node.args[:1] if holder is None else [holder]
    if not direct or direct[0] is not inner.node or "softmax" not in outer.script.segment(inner.node.func):
        return None
    function = outer.script.segment(inner.node.func)
    if not function.endswith(".softmax"):
        return None
    text = outer.script.segment(inner.node)
    return context.replace(value, function[: -len("softmax")] + "log_softmax" + text[len(function) :])
