"""An activation between the last layer and cross entropy.

## What it does
Reports a ReLU, sigmoid, tanh or similar between the last layer of a network and `CrossEntropyLoss` or `BCEWithLogitsLoss`.

## Why
These losses want logits, which may be any number.
A ReLU cuts the negative half off: classes whose logits are below zero get no gradient and all count the same.
Sigmoid and tanh confine the logits to a range of 1 or 2, so with 10 classes the loss cannot fall below 1.46 or 0.80.

## Fix
Give the output of the last layer to the loss.

## When to ignore
When the range of the logits is limited on purpose; a scale after the activation says so to this rule.

## References
- PyTorch documentation of CrossEntropyLoss: the input is expected to contain unnormalised logits
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.tensors import VIEWS, operand, operation, origin, source_text
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="activation-before-cross-entropy",
    code="LOS006",
    severity="warning",
    confidence="certain",
    layer="D",
    tags=("loss",),
)

BAD = (
    """
import torch.nn as nn
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3), nn.ReLU())
criterion = nn.CrossEntropyLoss()
for x, y in loader:
    criterion(model(x), y).backward()
""",
    """
import torch
import torch.nn.functional as F
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 3)
    def forward(self, x):
        return torch.sigmoid(self.fc(x))
net = Net()
def loss_of(x, y):
    return F.cross_entropy(net(x), y)
for x, y in loader:
    loss_of(x, y).backward()
""",
    """
import argparse
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--act", default="tanh")
args = p.parse_args()
acts = {"tanh": nn.Tanh(), "relu": nn.ReLU()}
class Net(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.fc, self.act = nn.Linear(8, 1), act
    def forward(self, x):
        return self.act(self.fc(x))
net = Net(acts[args.act])
for x, y in loader:
    nn.BCEWithLogitsLoss()(net(x), y).backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
net = nn.Linear(8, 100)
for x, y in loader:
    logits = 30.0 * torch.tanh(net(x) / 30.0)
    nn.functional.cross_entropy(logits, y).backward()
""",
    """
import torch, torch.nn as nn
import torch.nn.functional as F
a, b = nn.Linear(8, 8), nn.Linear(8, 3)
for x, y in loader:
    F.cross_entropy(b(F.relu(a(x))), y).backward()
""",
)

_ACTIVATIONS = frozenset(
    {"relu", "relu6", "sigmoid", "tanh", "hardtanh", "softplus", "elu", "gelu", "silu", "leaky_relu"}
)
_LAYERS = frozenset({"nn.Linear", "linear", "nn.Conv1d", "nn.Conv2d", "nn.Conv3d"})


def check(context: Context) -> Iterator[Finding]:
    """Follow the input of each loss on logits to an activation right after a layer."""
    seen: set[int] = set()
    for call in loss_calls(context, "cross_entropy", "binary_cross_entropy_with_logits"):
        strict = call.event.context.shadow
        found = origin(call.input, VIEWS, items=True, strict=strict)
        name = operation(found)
        if found is None or name not in _ACTIVATIONS:
            continue
        if call.kind == "binary_cross_entropy_with_logits" and name == "sigmoid":
            continue  # LOS011
        layer = origin(operand(found), VIEWS, strict=strict)
        if operation(layer) not in _LAYERS or layer is None:
            continue
        if found.site is not None and id(found.site.node) in seen:
            continue  # the same activation before the loss that validates
        if found.site is not None:
            seen.add(id(found.site.node))
        yield context.finding(
            RULE,
            call.event,
            f"{name} between the last layer and {call.name} limits the logits: {_WHY.get(name, 'it damps one side of them')}",
            evidence=[Evidence("operation before the loss", source_text(context, found))],
            related=[(found, f"the {name} is here"), (layer, "the last layer is here")],
            fix=Fix(
                title="give the output of the last layer to the loss",
                instruction=f"remove the {name} after the last layer",
                expected="logits can take every value",
            ),
        )


_WHY = {
    "relu": "classes with a negative logit get no gradient",
    "relu6": "classes with a logit outside [0, 6] get no gradient",
    "sigmoid": "they cannot differ by more than 1",
    "tanh": "they cannot differ by more than 2",
    "hardtanh": "they cannot differ by more than 2",
    "softplus": "none can be negative",
}
