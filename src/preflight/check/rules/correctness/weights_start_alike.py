"""All weights of a network start with the same number.

## What it does
Looks for a loop over all parameters of a network that sets each of them to zero, one or another constant before the training.

## Why
The units of a layer that start alike get the same gradient in every step and stay alike: a layer of a thousand units learns no more than one of a single unit.
From zeros, nothing but the last bias learns at all, since each gradient is a product with weights that are zero.

## Fix
Leave the initialisation that PyTorch's layers bring, or draw the weights (`xavier_uniform_`, `kaiming_normal_`) and set biases alone to zero.

## When to ignore
When weights are loaded afterwards, in a way that was not seen.

## References
- Goodfellow, Bengio, Courville: Deep Learning, 2016, 8.4: initial parameters need to break symmetry between units
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.parameters import holding_of, parts_of
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.layers import Network
from preflight.source.trace import Event
from preflight.source.values import Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="weights-start-alike",
    code="MOD016",
    severity="error",
    confidence="likely",
    needs=("optimizer", "complete"),
    layer="D",
    tags=("initialisation",),
)

_LOOP = """
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
"""

BAD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
for p in net.parameters():
    nn.init.zeros_(p)
optimizer = torch.optim.Adam(net.parameters())
"""
    + _LOOP,
    """
import torch
import torch.nn.init as init
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)
        for weight in self.parameters():
            init.constant_(weight, 0.01)
    def forward(self, x):
        return self.head(self.body(x).tanh())
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
    + _LOOP,
    """
import argparse, torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--start", type=float, default=1.0)
args = p.parse_args()
net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(5408, 10))
for name, weight in net.named_parameters():
    nn.init.constant_(weight, args.start)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
    + _LOOP,
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
for name, p in net.named_parameters():
    if "bias" in name:
        nn.init.zeros_(p)
optimizer = torch.optim.Adam(net.parameters())
"""
    + _LOOP,
    """
import torch
from torch import nn
net = nn.Linear(8, 2)
for p in net.parameters():
    nn.init.zeros_(p)
optimizer = torch.optim.Adam(net.parameters())
"""
    + _LOOP,
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
for p in net.parameters():
    nn.init.zeros_(p)
    if p.dim() > 1:
        nn.init.xavier_uniform_(p)
optimizer = torch.optim.Adam(net.parameters())
"""
    + _LOOP,
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
for p in net.parameters():
    nn.init.zeros_(p)
net.load_state_dict(torch.load("net.pt"))
optimizer = torch.optim.Adam(net.parameters())
"""
    + _LOOP,
)

_SETS = {"torch.nn.init.zeros_": 0.0, "torch.nn.init.ones_": 1.0, "torch.nn.init.constant_": None}
_ANEW = (".load_state_dict", ".apply", ".reset_parameters", ".init_weights", ".copy_", ".uniform_", ".normal_")


def check(context: Context) -> Iterator[Finding]:
    """Look at what is set to a constant in loops over all parameters of what is trained."""
    trained = {
        i
        for optimizer in context.reading.made("optimizer")
        for part in holding_of(context.reading, optimizer).parts
        for i in parts_of(part.owner)
    }
    for event in context.trace.calls(*_SETS):
        owner = _owner(event.args[0]) if event.args else None
        if owner is None or id(owner) not in trained or event.context.shadow or not _unguarded(event):
            continue
        leaves = [leaf for leaf in Network(context.reading, owner).leaves if leaf.count]
        if len(leaves) < 2 or _drawn_later(context, event):
            continue
        value = _SETS[event.name] if _SETS[event.name] is not None else plain(event.argument(1, "val"))
        yield context.finding(
            RULE,
            event,
            f"every parameter of {len(leaves)} layers is set to {value if value is not None else 'one number'}: "
            "the units of a layer stay alike",
            evidence=[Evidence("layers", len(leaves)), Evidence("set to", value)],
            fix=Fix(
                title="draw the weights",
                safe=False,
                instruction="leave the initialisation of the layers as it is, or use xavier_uniform_ for what has two dimensions",
                expected="units of a layer begin differently",
            ),
        )


def _owner(value: Value) -> Obj | None:
    """The module through whose parameters a loop goes."""
    base = settle(value)
    for _ in range(3):
        if not isinstance(base, Obj):
            return None
        if base.name in (".parameters", ".named_parameters") and base.receiver is not None:
            owner = settle(base.receiver)
            return owner if isinstance(owner, Obj) and is_module(owner) else None
        if base.kind != "item" or base.receiver is None:
            return None
        base = settle(base.receiver)
    return None


def _unguarded(event: Event) -> bool:
    """Whether the call is made for each parameter: no condition stands between it and its loop."""
    for frame in event.context.frames():
        if frame.kind == "if":
            return False
        if frame.kind == "loop":
            return True
    return False


def _drawn_later(context: Context, event: Event) -> bool:
    """Whether something may give the weights other numbers afterwards."""
    return any(
        other.number > event.number
        and (other.name in _ANEW or (other.name.startswith("torch.nn.init.") and other.name not in _SETS))
        for other in context.trace.events
    )
