"""`squeeze()` without a dimension in a model.

## What it does
Reports `squeeze()` without a dimension in the `forward` of a module.

## Why
It removes every dimension of size 1, the batch too when a batch holds one example, which the last batch of an epoch may.
The shape then differs from all other batches: a later step fails or broadcasts without an error.

## Fix
Name the dimension: `squeeze(-1)`.

## When to ignore
When batches of one cannot occur.

## References
- PyTorch documentation of squeeze: a warning about the batch dimension
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.tensors import graph, is_method, operand, source_text, within_forward
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Obj, Value
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="squeeze-without-dimension", code="SHP003", severity="info", confidence="likely", layer="S", tags=("shapes",)
)

BAD = (
    """
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 1)
    def forward(self, x):
        return self.fc(x).squeeze()
net = Net()
""",
    """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
    def pool(self, x):
        return torch.squeeze(x.mean((2, 3), keepdim=True))
    def forward(self, x):
        return self.pool(self.conv(x))
net = Net()
for x in loader:
    net(x).sum().backward()
""",
    """
from torch import nn
class Gate(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.rnn = nn.LSTM(width, 1)
    def forward(self, x):
        out, _ = self.rnn(x)
        gate = out.squeeze()
        return gate.sigmoid()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()
    def forward(self, x):
        return self.gate(x)
net = Net()
for x in loader:
    net(x).sum().backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 1)
    def forward(self, x):
        return self.fc(x).squeeze(-1)
net = Net()
for x, y in loader:
    print(net(x).sum().squeeze(), y.squeeze())
""",
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 1)
        self.scale = nn.Parameter(torch.ones(1, 1))
    def forward(self, x):
        return torch.squeeze(self.fc(x), 1) * self.scale.squeeze()
net = Net()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for squeeze without an argument on what depends on the input of a forward."""
    for value in graph(context).made("squeeze"):
        given = len(value.args) - (0 if is_method(value) else 1)
        if given > 0 or "dim" in value.kwargs or not within_forward(value.context) or not _computed(operand(value)):
            continue
        yield context.finding(
            RULE,
            value,
            "squeeze() without a dimension also removes the batch dimension when a batch holds one example",
            evidence=[Evidence("call", source_text(context, value))],
            fix=Fix(
                title="name the dimension",
                instruction="write squeeze(-1), or the dimension that is meant",
                expected="the shape does not depend on the batch size",
            ),
        )


def _computed(value: Value | None) -> bool:
    """Whether a value is what a layer returned, or was computed from it."""
    return any(isinstance(p, Obj) and p.kind == "call" and p.name == "()" for p in provenance(value, 60))
