"""A layer is made inside forward.

## What it does
Reports layers with parameters, and dropout layers, that `forward` makes and calls without keeping them on the module.

## Why
Every call makes new random weights, which no optimizer holds and no checkpoint saves: the layer is never trained.
A dropout layer made there is in train mode for ever, so evaluation drops activations too.

## Fix
Make the layer in `__init__` and keep it as an attribute.

## When to ignore
Never for training.

## References
- PyTorch documentation of Module
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.tensors import inside_forward
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="layer-made-in-forward", code="MOD013", severity="error", confidence="certain", layer="D", tags=("modules",)
)

BAD = (
    """
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        return nn.Linear(8, 2)(self.fc(x))
net = Net()
for x, y in loader:
    nn.functional.cross_entropy(net(x), y).backward()
""",
    """
import torch
from torch.nn import Dropout as Drop
class Net(torch.nn.Module):
    def __init__(self, p=0.3):
        super().__init__()
        self.fc, self.p = torch.nn.Linear(8, 2), p
    def forward(self, x):
        drop = Drop(self.p)
        return self.fc(drop(x))
net = Net()
for x in loader:
    net(x).sum().backward()
""",
    """
import argparse
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--width", type=int, default=8)
args = p.parse_args()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, args.width, 3)
    def forward(self, x):
        norm = nn.BatchNorm2d(args.width)
        x = norm(self.conv(x))
        return x.mean((2, 3))
net = Net()
for x, y in loader:
    nn.functional.cross_entropy(net(x), y).backward()
""",
)

GOOD = (
    """
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = None
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        x = nn.ReLU()(self.fc(x))
        if self.head is None:
            self.head = nn.Linear(x.size(1), 2)
        return nn.Softmax(dim=1)(self.head(x))
net = Net()
for x, y in loader:
    net(x).sum().backward()
""",
    """
import torch.nn as nn
def build():
    def forward(x):
        return nn.Linear(8, 2)(x)
    return forward
layer = build()
out = layer(batch)
""",
)

_LAYERS = (
    r"^torch\.nn\.(Linear|Bilinear|Conv\w+|BatchNorm\w+|LSTM|GRU|RNN|Embedding|MultiheadAttention|Transformer\w+|(Alpha)?Dropout\w*|PReLU"
    r"|LazyLinear|LSTMCell|GRUCell)$"
)


def check(context: Context) -> Iterator[Finding]:
    """Look for layers that a forward makes, calls and forgets."""
    called: set[int] | None = None
    for name, events in context.trace.by_name.items():
        if not re.match(_LAYERS, name):
            continue
        for event in events:
            forward = inside_forward(event.context)
            if forward is None or event.context.shadow or not isinstance(event.result, Obj):
                continue
            if called is None:
                called = {id(o) for e in context.trace.calls("()") for o in options_of(e.receiver)}
            if id(event.result) not in called or _kept(context, event):
                continue
            dropout = "Dropout" in name
            short = name.rpartition(".")[2]
            yield context.finding(
                RULE,
                event,
                f"{forward.qualname} makes a new {short} at every call: "
                + ("it is in train mode for ever" if dropout else "its weights are random each time and never trained"),
                evidence=[Evidence("layer made in", forward.qualname), Evidence("kept on the module", False)],
                fix=Fix(
                    title="make the layer once",
                    instruction=f"make the {short} in __init__ and call it here",
                    expected="evaluation turns the dropout off" if dropout else "the layer is trained and saved",
                ),
            )


def _kept(context: Context, event: Event) -> bool:
    return any(o is event.result for s in context.trace.stores for o in options_of(s.value, limit=3))
