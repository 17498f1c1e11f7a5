"""Sigmoid output is given to BCE with logits.

## What it does
Follows the input of `binary_cross_entropy_with_logits` / `BCEWithLogitsLoss` back through the model and reports when it already went through a sigmoid.

## Why
The loss applies the sigmoid itself.
A value in [0, 1] after a second sigmoid lies in [0.50, 0.73]: the network cannot say "no" at all, and the loss of a negative example cannot fall below ln 2 = 0.69.

## Fix
Return the logits, and apply the sigmoid only where probabilities are shown or thresholded.

## When to ignore
Never for training; the loss without logits is `BCELoss`.

## References
- PyTorch documentation of BCEWithLogitsLoss: it combines a sigmoid layer and the BCELoss in one class
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.tensors import VIEWS, operation, origin, source_text
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="sigmoid-before-bce-with-logits",
    code="LOS011",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("loss",),
)

BAD = (
    """
import torch.nn as nn
model = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
criterion = nn.BCEWithLogitsLoss()
for x, y in loader:
    criterion(model(x), y).backward()
""",
    """
import torch
import torch.nn.functional as F
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 1)
    def forward(self, x):
        return torch.sigmoid(self.fc(x)).squeeze(-1)
def loss_of(net, x, y):
    return F.binary_cross_entropy_with_logits(net(x), y)
net = Net()
for x, y in loader:
    loss_of(net, x, y).backward()
""",
    """
from dataclasses import dataclass
import torch
from torch import nn
@dataclass
class Config:
    final: str = "sigmoid"
class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.config = config
    def forward(self, x):
        x = self.fc(x)
        if self.config.final == "sigmoid":
            x = x.sigmoid()
        return x
net = Net(Config())
bce = nn.BCEWithLogitsLoss(pos_weight=torch.ones(4))
for x, y in loader:
    bce(net(x), y).backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
net = nn.Linear(8, 1)
bce = nn.BCEWithLogitsLoss()
for x, y in loader:
    logits = net(x)
    bce(logits, y).backward()
    accuracy = ((torch.sigmoid(logits) > 0.5) == y).float().mean()
""",
    """
import torch, torch.nn as nn
teacher, net = nn.Linear(8, 1), nn.Linear(8, 1)
gate = nn.Linear(8, 8)
for x in loader:
    soft = torch.sigmoid(teacher(x)).detach()
    nn.functional.binary_cross_entropy_with_logits(net(torch.sigmoid(gate(x)) * x), soft).backward()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Follow the input of each BCE with logits to the operation that made it."""
    for call in loss_calls(context, "binary_cross_entropy_with_logits"):
        found = origin(call.input, VIEWS, items=True, strict=call.event.context.shadow)
        if found is None or operation(found) not in ("sigmoid", "softmax"):
            continue
        name = operation(found)
        yield context.finding(
            RULE,
            call.event,
            f"{call.name} applies a sigmoid itself, but its input already went through a {name}: no output can fall below 0.5",
            evidence=[
                Evidence("operation before the loss", source_text(context, found)),
                Evidence("lowest loss of a negative example", 0.69, arithmetic="-ln(1 - sigmoid(0)) = ln 2"),
            ],
            related=[(found, f"the {name} is here")],
            fix=Fix(
                title="give the logits to the loss",
                instruction=f"remove the {name} before the loss; apply it only to show probabilities",
                expected="outputs can take every probability",
            ),
        )
