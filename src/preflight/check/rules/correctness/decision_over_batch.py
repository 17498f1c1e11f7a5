"""The decision is taken over the batch instead of over the classes.

## What it does
Looks for `argmax` and `max` over dimension 0 of a network's output for a batch, whose result is compared with the labels.

## Why
`argmax(0)` names for each class the sample that scores highest; it has as many entries as there are classes.
Beside the labels of a batch it raises an error, or, where sizes happen to agree, gives an accuracy that means nothing.

## Fix
Decide over the classes: `argmax(1)`, or `argmax(-1)` for any number of dimensions.

## When to ignore
Never, where the first dimension is the batch.

## References
- PyTorch, `torch.argmax`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.shapes import rank, width
from preflight.check.queries.tensors import (
    VIEWS,
    graph,
    literal_edit,
    operand,
    operation,
    option,
    origin,
    second,
    source_text,
)
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value, plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="decision-over-batch", code="MET005", severity="error", confidence="likely", layer="D", tags=("metric",)
)

BAD = (
    """
import torch
from torch import nn
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
right = 0
for x, y in loader:
    right += (model(x).argmax(0) == y).sum().item()
""",
    """
import torch
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, 8, 3), nn.Linear(5408, 10)
    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).flatten(1))
net = Net()
def accuracy(x, y):
    _, predicted = torch.max(net(x), 0)
    return predicted.eq(y).float().mean()
accuracy(batch, labels)
""",
    """
import torch
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(32, 4), torch.nn.Softmax(dim=1))
for x, y in loader:
    guess = torch.argmax(net(x), dim=0)
    print((y == guess).sum())
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
right = 0
for x, y in loader:
    right += (model(x).argmax(1) == y).sum().item()
""",
    """
import torch
from torch import nn
model = nn.Linear(784, 10)
def name(image):
    return names[model(image).argmax(0)]
name(picture)
""",
    """
import torch
from torch import nn
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
strongest = model(batch).argmax(0)
print([files[i] for i in strongest])
""",
    """
import torch
from torch import nn
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
for x, y in loader:
    print((model(x)[0].argmax(0) == y[0]).item())
""",
)

_EQUAL = ("==", "eq")


def check(context: Context) -> Iterator[Finding]:
    """Follow both sides of comparisons to a decision over dimension 0 of a batch of scores."""
    for compared in graph(context).made(*_EQUAL):
        for side in (operand(compared), second(compared)):
            decision = _decision(side)
            if decision is None:
                continue
            scores = operand(decision)
            yield context.finding(
                RULE,
                decision,
                f"{operation(decision)} over dim=0 decides over the batch instead of over the classes",
                evidence=[
                    Evidence("dim", 0),
                    Evidence("shape of the scores", f"(N, {width(scores)})"),
                    Evidence("scores", source_text(context, scores or decision)),
                ],
                related=[(compared, "its result is compared here")],
                fix=Fix(
                    title="decide over the classes",
                    edits=edits(literal_edit(context, option(decision, 0, "dim"), "0", "1")),
                    instruction="use dim=1, or dim=-1",
                    expected="one decision for each sample",
                ),
            )


def _decision(side: Value | None) -> Obj | None:
    """The ``argmax`` over dimension 0 of scores of shape (batch, classes) that a value is."""
    found = origin(side, VIEWS, items=True)
    if found is None or operation(found) not in ("argmax", "max") or plain(option(found, 0, "dim")) != 0:
        return None
    scores = operand(found)
    return found if rank(scores) == 2 and (width(scores) or 0) >= 2 else None
