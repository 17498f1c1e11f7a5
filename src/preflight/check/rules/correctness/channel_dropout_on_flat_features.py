"""Channel-wise dropout on flat features.

## What it does
Reports `Dropout2d` or `Dropout3d` on a tensor with two dimensions, such as the output of a linear layer after flattening.

## Why
`Dropout2d` drops whole channels of pictures.
On a (batch, features) tensor it does what PyTorch keeps for compatibility and warns about; with three dimensions it takes the first for channels.
The plain `Dropout` is what is meant.

## Fix
Use `nn.Dropout`.

## When to ignore
Never.

## References
- PyTorch documentation of Dropout2d
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.shapes import rank
from preflight.check.queries.tensors import graph, module_of, operand, operation, source_text
from preflight.check.rule import Rule
from preflight.source.values import Obj
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="channel-dropout-on-flat-features",
    code="MOD006",
    severity="warning",
    confidence="certain",
    layer="D",
    tags=("modules",),
)

BAD = (
    """
import torch, torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc1, self.fc2 = nn.Conv2d(1, 8, 3), nn.Linear(5408, 64), nn.Linear(64, 10)
        self.dropout = nn.Dropout2d(0.5)
    def forward(self, x):
        x = torch.flatten(F.relu(self.conv(x)), 1)
        return self.fc2(self.dropout(F.relu(self.fc1(x))))
net = Net()
for x, y in loader:
    F.cross_entropy(net(x), y).backward()
""",
    """
from torch import nn
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Dropout2d(p=0.25), nn.Linear(64, 10))
for x, y in loader:
    nn.functional.cross_entropy(model(x), y).backward()
""",
    """
import argparse
from torch import nn
from torch.nn import functional as F
p = argparse.ArgumentParser()
p.add_argument("--p", type=float, default=0.3)
args = p.parse_args()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(320, 50)
    def forward(self, x):
        x = x.view(-1, 320)
        return F.dropout2d(self.fc(x), args.p, training=self.training)
net = Net()
for x, y in loader:
    F.cross_entropy(net(x), y).backward()
""",
)

GOOD = (
    """
import torch.nn as nn
net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Dropout2d(0.2), nn.Flatten(), nn.Dropout(0.5), nn.Linear(5408, 10))
for x, y in loader:
    nn.functional.cross_entropy(net(x), y).backward()
""",
    """
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.drop = nn.Linear(8, 8), nn.Dropout2d(0.2)
    def forward(self, x):
        return self.drop(self.fc(x).view(-1, 2, 2, 2))
net = Net()
for x, y in loader:
    net(x).mean().backward()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for channel-wise dropout whose input has two dimensions."""
    for value in graph(context).made("dropout2d", "dropout3d"):
        dimensions = rank(operand(value))
        if dimensions != 2:
            continue
        name = operation(value) or ""
        shown = name.replace("dropout", "Dropout")
        layer = module_of(value)
        yield context.finding(
            RULE,
            value,
            f"{shown} drops whole channels, but its input {source_text(context, operand(value) or value, 40)} has only "
            "two dimensions: plain dropout is meant",
            evidence=[Evidence("dimensions of the input", 2)],
            related=[(layer, "the layer is made here")] if layer is not None else [],
            fix=Fix(
                title="use plain dropout",
                edits=edits(_edit(context, value, layer, name)),
                instruction="use nn.Dropout here",
                expected="single features are dropped, without a warning",
            ),
        )


def _edit(context: Context, value: Obj, layer: Obj | None, name: str) -> Edit | None:
    """Rename the function; a layer may be used elsewhere too, so it is left to the person."""
    if layer is not None or value.site is None or not isinstance(value.site.node, ast.Call):
        return None
    func = value.site.node.func
    text = value.site.script.segment(func)
    return (
        context.replace((value.site.script, func), text[: -len(name)] + "dropout")
        if text.endswith("." + name)
        else None
    )
