"""The logarithm of a probability that can be zero.

## What it does
Reports `log(1 - p)`, also as `log1p(-p)`, of a sigmoid or soft-max, the hand-written binary cross entropy, and `log` of single entries picked out of a soft-max, when nothing keeps the argument from zero.

## Why
In float32 a sigmoid is exactly 1 from a logit of 17 on, so `1 - p` is exactly 0, its logarithm -inf and the gradient NaN.
One such element makes the mean over the batch infinite, and one step later all weights are NaN.

## Fix
Use `binary_cross_entropy_with_logits`, `log_softmax` before picking entries, or clamp the probability.

## When to ignore
When the logits are known to stay small.

## References
- PyTorch documentation of BCEWithLogitsLoss: numerically more stable than a sigmoid followed by a BCELoss
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.tensors import VIEWS, grad_off, graph, operand, operation, origin, source_text
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value, plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="log-of-probability-without-clamp",
    code="NUM002",
    severity="warning",
    confidence="likely",
    layer="D",
    tags=("numerics",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    p = torch.sigmoid(model(x))
    loss = -(y * nn.functional.logsigmoid(model(x)) + (1 - y) * torch.log1p(-p)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch, torch.nn as nn
net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
for x, y in loader:
    p = net(x)
    loss = -(y * (p + 1e-6).clamp(max=1).log() + (1 - y) * torch.log(1 - p)).mean()
    loss.backward()
""",
    """
import torch
import torch.nn.functional as F
class Q(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 2 * 51)
    def get(self, x, action):
        pmf = F.softmax(self.fc(x).view(-1, 2, 51), dim=2)
        return pmf[torch.arange(len(x)), action]
q = Q()
for x, a, target in loader:
    (-(target * q.get(x, a).log()).sum(-1)).mean().backward()
""",
    """
import argparse
import torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--hidden", type=int, default=32)
args = p.parse_args()
class D(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, args.hidden), nn.Linear(args.hidden, 1)
    def forward(self, x):
        return self.b(self.a(x).relu()).sigmoid().view(-1)
d = D()
for real, fake in loader:
    (-torch.log(1.0 - d(fake))).mean().backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    out = model(x)
    p = torch.sigmoid(out).clamp(1e-6, 1 - 1e-6)
    loss = -(torch.log1p(-p) + torch.log1p(torch.sigmoid(out))).mean() + torch.log1p(torch.exp(-out)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch, torch.nn as nn
net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
for x, y in loader:
    p = net(x).clamp(1e-6, 1 - 1e-6)
    loss = -(y * p.log() + (1 - y) * (1 - p).log()).mean() - torch.log(1 - net(x) + 1e-15).mean()
    loss.backward()
""",
    """
import torch, torch.nn as nn
net = nn.Linear(8, 4)
for x, y in loader:
    logp = torch.log_softmax(net(x), 1)
    loss = -logp.gather(1, y[:, None]).mean() + torch.log(1 - x).mean()
    loss.backward()
""",
)

_PROBABILITY = ("softmax", "sigmoid")
_PICKING = VIEWS | {"gather", "index_select", "masked_select", "take_along_dim"}


def check(context: Context) -> Iterator[Finding]:
    """Look for logarithms of what can be exactly zero."""
    for value in graph(context).made("log", "log2", "log10", "log1p"):
        if grad_off(value.context):
            continue
        inner = operand(value)
        beside = operation(value) == "log1p"
        found, shown = _negated(inner) if beside else _complement(inner)
        if found is None and not beside:
            found, shown = _picked(inner), "an entry of a"
        if found is None:
            continue
        name = operation(found)
        yield context.finding(
            RULE,
            value,
            f"log of {shown} {name} is -inf where it is exactly 0, and its gradient is NaN",
            evidence=[
                Evidence("operand of the logarithm", source_text(context, inner or value)),
                Evidence(
                    "logit from which 1 - sigmoid is 0 in float32", 17, arithmetic="exp(-17) = 4e-8 < 2^-24 = 6e-8"
                ),
            ],
            related=[(found, f"the {name} is here")],
            fix=Fix(
                title="compute the logarithm from the logits",
                instruction="use binary_cross_entropy_with_logits or log_softmax, or clamp the probability to [1e-6, 1 - 1e-6]",
                expected="the loss stays finite",
            ),
        )


def _complement(value: Value | None) -> tuple[Obj | None, str]:
    """The sigmoid or soft-max p of ``1 - p``."""
    found = origin(value, VIEWS)
    if found is not None and operation(found) == "-" and len(found.args) == 2 and plain(found.args[0]) == 1:
        inner = origin(found.args[1], _PICKING, items=True)
        if operation(inner) in _PROBABILITY:
            return inner, "1 minus a"
    return None, ""


def _negated(value: Value | None) -> tuple[Obj | None, str]:
    """The sigmoid or soft-max p of ``log1p(-p)``, which is ``log(1 - p)``."""
    found = origin(value, VIEWS)
    if found is not None and operation(found) == "neg":
        inner = origin(operand(found), _PICKING, items=True)
        if operation(inner) in _PROBABILITY:
            return inner, "1 minus a"
    return None, ""


def _picked(value: Value | None) -> Obj | None:
    """The soft-max that single entries were picked out of."""
    direct = origin(value, VIEWS)
    if operation(direct) not in ("[]", "gather", "index_select", "masked_select", "take_along_dim"):
        return None
    inner = origin(value, _PICKING, items=True)
    return inner if operation(inner) == "softmax" else None
