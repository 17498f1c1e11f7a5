"""Perplexities of batches are averaged.

## What it does
Looks for exponentials of a batch's loss that are added up over the batches.

## Why
The perplexity of a text is the exponential of the mean loss.
The mean of exponentials is larger (Jensen's inequality), and one bad batch decides it:
losses 2, 3 and 8 give a perplexity of 76, but a mean of 1003.

## Fix
Add up the losses, divide, and take the exponential once.

## When to ignore
When the perplexity of each batch is wanted, and only logged.

## References
- Jelinek et al., "Perplexity - a measure of the difficulty of speech recognition tasks", 1977
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.metrics import added, bare, batch_mean
from preflight.check.rule import Rule
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(name="mean-of-perplexities", code="MET002", severity="warning", confidence="likely", tags=("metric",))
_EXP = ("math.exp", "torch.exp", "numpy.exp", ".exp")

BAD = (
    """
import math, torch
from torch import nn
model = nn.Linear(10, 2)
total = 0.0
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    total += math.exp(loss.item())
print(total / len(loader))
""",
    """
import torch
from torch.nn import functional as F
net = torch.nn.Linear(10, 2)
def perplexity(loss):
    return torch.exp(loss)
def evaluate():
    summed = 0
    for x, y in loader:
        summed = summed + perplexity(F.cross_entropy(net(x), y)).item()
    return summed / len(loader)
print(evaluate())
""",
    """
import argparse, torch
import numpy as np
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--smoothing", type=float, default=0.0)
args = parser.parse_args()
class Job:
    def __init__(self):
        self.net = nn.Linear(4, 2)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=args.smoothing)
    def test(self):
        value = 0.0
        for x, y in loader:
            value += np.exp(self.criterion(self.net(x), y).item())
        return value / len(loader)
print(Job().test())
""",
)

GOOD = (
    """
import math, torch
from torch import nn
model = nn.Linear(10, 2)
total = 0.0
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    total += loss.item()
    print("perplexity of the batch", math.exp(loss.item()))
print(math.exp(total / len(loader)))
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
total = 0.0
for x, y in loader:
    total += torch.exp(-model(x)).sum().item()
print(total / len(loader))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find sums of exponentials of losses."""
    for carry in context.trace.carried:
        found = added(context, carry.final)
        inner = bare(found[0]) if found is not None else None
        if not isinstance(inner, Obj) or inner.name not in _EXP:
            continue
        loss = inner.receiver if inner.name == ".exp" else inner.args[0] if inner.args else None
        if batch_mean(context, loss) is None:
            continue
        yield context.finding(
            RULE,
            inner,
            f'"{carry.name}" adds up the exponentials of the losses of batches: their mean exceeds the perplexity',
            evidence=[
                Evidence(
                    "mean of exponentials",
                    1003,
                    arithmetic="(e^2 + e^3 + e^8) / 3; perplexity e^(13/3) = 76",
                )
            ],
            fix=Fix(
                title="take the exponential of the mean",
                instruction="add up loss.item(), and print math.exp(total / len(loader))",
                expected="the perplexity of the whole text",
            ),
        )
