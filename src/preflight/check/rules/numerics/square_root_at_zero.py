"""The square root of a sum that can be zero.

## What it does
Reports `sqrt` (and powers below one) of a sum or mean of squares per example, or of a variance, when nothing keeps it from zero and gradients flow through.

## Why
The derivative of sqrt at 0 is infinite, and infinite times the zero of the inner derivative is NaN.
One pair of equal vectors in a batch, such as the diagonal of a distance matrix, makes every weight NaN in the next step.
`torch.norm`, `cdist` and `std` handle zero; the hand-written form does not.

## Fix
Add a constant under the root: `sqrt(s + 1e-12)`; or use `torch.linalg.vector_norm`.

## When to ignore
When the sum is never zero, as for a loss over a whole batch.

## References
- PyTorch documentation of torch.linalg.vector_norm
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.tensors import VIEWS, graph, operand, operation, option, origin, source_text
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value, plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="square-root-at-zero", code="NUM003", severity="warning", confidence="likely", layer="D", tags=("numerics",)
)

BAD = (
    """
import torch, torch.nn as nn
net = nn.Linear(8, 4)
for a, b in loader:
    distance = torch.sqrt(((net(a) - net(b)) ** 2).sum(dim=1))
    distance.mean().backward()
""",
    """
import torch
class Loss(torch.nn.Module):
    def forward(self, x, y):
        d = x.unsqueeze(0) - y.unsqueeze(1)
        return d.pow(2).sum(-1).sqrt().mean()
net, loss = torch.nn.Linear(8, 4), Loss()
for a, b in loader:
    loss(net(a), net(b)).backward()
""",
    """
import argparse, torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--axis", type=int, default=1)
args = p.parse_args()
net = nn.Linear(8, 4)
def spread(h):
    return torch.var(h, dim=args.axis) ** 0.5
for x in loader:
    spread(net(x)).sum().backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
net = nn.Linear(8, 4)
for a, b in loader:
    d = net(a) - net(b)
    loss = torch.sqrt((d ** 2).sum(1) + 1e-12).mean() + d.norm(dim=1).mean()
    loss = loss + torch.sqrt(d.square().sum(1).clamp(min=1e-9)).mean()
    loss.backward()
""",
    """
import torch, torch.nn as nn
net = nn.Linear(8, 4)
for x, y in loader:
    out = net(x)
    torch.nn.functional.mse_loss(out, y).backward()
    with torch.no_grad():
        rmse = torch.sqrt(((out - y) ** 2).mean(dim=0))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for roots, on the way of the gradient, of sums of squares."""
    found = graph(context)
    for value in found.made("sqrt", "rsqrt", "**", "pow"):
        if not found.trains(value) or not _is_root(value):
            continue
        inner = origin(operand(value), VIEWS)
        if inner is None:
            continue
        name = operation(inner)
        if name in ("sum", "mean") and option(inner, 0, "dim") is not None and _squares(operand(inner)):
            what = "sum of squares"
        elif name == "var":
            what = "variance"
        else:
            continue
        yield context.finding(
            RULE,
            value,
            f"the root of a {what} has an infinite derivative at 0: one zero in the batch makes the gradient NaN",
            evidence=[
                Evidence("under the root", source_text(context, inner)),
                Evidence("derivative at 0", "infinite", arithmetic="d sqrt(s)/ds = 1 / (2 sqrt(s)); inf * 0 = NaN"),
            ],
            fix=Fix(
                title="keep the root from zero",
                instruction="add a constant under the root: sqrt(s + 1e-12), or use torch.linalg.vector_norm",
                expected="the gradient is finite for equal vectors",
            ),
        )


def _is_root(value: Obj) -> bool:
    name = operation(value)
    if name in ("sqrt", "rsqrt"):
        return True
    power = plain(value.args[1]) if name == "**" and len(value.args) == 2 else plain(option(value, 0, "exponent"))
    return isinstance(power, float) and 0 < power < 1


def _squares(value: Value | None) -> bool:
    """Whether a value is a square: ``x ** 2``, ``x.pow(2)``, ``x.square()``, ``x * x``."""
    found = origin(value, VIEWS)
    name = operation(found)
    if found is None:
        return False
    if name == "square":
        return True
    if name == "**" and len(found.args) == 2:
        return bool(plain(found.args[1]) == 2)
    if name == "pow":
        return bool(plain(option(found, 0, "exponent")) == 2)
    return name in ("*", "mul") and len(found.args) == 2 and found.args[0] is found.args[1]
