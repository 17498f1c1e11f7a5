"""A moving average of the weights keeps a graph.

## What it does
Looks for an average of parameters that is stored in each step (`shadow = decay * shadow + (1 - decay) * parameter`) where gradients are recorded.

## Why
A parameter requires gradients, so the result does too: the new average refers to the old one, that to the one before, and so on.
The chain grows by one copy of the weights with each step: 124 million parameters in fp32 are 0.5 GB per step.

## Fix
Put the update under `torch.no_grad()`, and update in place: `shadow.mul_(decay).add_(parameter, alpha=1 - decay)`.

## When to ignore
When the average is differentiated on purpose.

## References
- PyTorch documentation, `torch.optim.swa_utils.AveragedModel`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.kept_graphs import recorded, switched_globally
from preflight.check.rule import Rule
from preflight.source.trace import Store, provenance
from preflight.source.values import Dict, Obj, Unknown, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="average-keeps-graph",
    code="MEM015",
    severity="error",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("memory", "growth"),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
shadow = {n: p.detach().clone() for n, p in model.named_parameters()}
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    for n, p in model.named_parameters():
        shadow[n] = 0.99 * shadow[n] + 0.01 * p
""",
    """
import torch
import torch.nn as nn
class Ema:
    def __init__(self, net, decay):
        self.net, self.decay = net, decay
        self.shadow = {}
        for name, p in net.named_parameters():
            self.shadow[name] = p.clone().detach()
    def update(self):
        for name, p in self.net.named_parameters():
            new = (1.0 - self.decay) * p + self.decay * self.shadow[name]
            self.shadow[name] = new.clone()
net = nn.Linear(10, 2)
ema = Ema(net, 0.999)
opt = torch.optim.Adam(net.parameters())
for x, y in loader:
    opt.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    opt.step()
    ema.update()
""",
    """
import argparse, torch
from torch.nn import Linear
parser = argparse.ArgumentParser()
parser.add_argument("--decay", type=float, default=0.99)
args = parser.parse_args()
model = Linear(10, 2)
opt = torch.optim.SGD(model.parameters(), 0.1)
average = {}
def blend(old, new):
    return old * args.decay + new * (1 - args.decay)
for x, y in loader:
    opt.zero_grad()
    model(x).mean().backward()
    opt.step()
    for name, p in model.named_parameters():
        average[name] = blend(average[name], p)
""",
)
GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
shadow = {n: p.detach().clone() for n, p in model.named_parameters()}
@torch.no_grad()
def update(net):
    for n, p in net.named_parameters():
        shadow[n] = 0.99 * shadow[n] + 0.01 * p
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    update(model)
    for n, p in model.named_parameters():
        shadow[n] = 0.99 * shadow[n] + 0.01 * p.data
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
teacher = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    for p, q in zip(model.parameters(), teacher.parameters()):
        q.data = q.data * 0.9 + p.detach().data * 0.1
        q.data.mul_(0.9).add_(p.data, alpha=0.1)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find stored averages of parameters where gradients are recorded."""
    if switched_globally(context):
        return
    seen: set[int] = set()
    for store in context.trace.stores:
        if id(store.node) in seen or not any(store.context.within(loop.frame) for loop in context.reading.loops):
            continue
        parameter = _average(store)
        if parameter is None or recorded(store.context) is not True or store.context.shadow:
            continue
        seen.add(id(store.node))
        yield context.finding(
            RULE,
            store,
            "an average of parameters is stored with its graph: each step keeps the average of the step before, so memory grows by a copy of the weights per step",
            evidence=[Evidence("gradients recorded here", True), Evidence("detached", False)],
            fix=Fix(
                title="update the average under torch.no_grad()",
                instruction="put the update under `with torch.no_grad():`, or use parameter.detach()",
                expected="the average holds one copy of the weights",
            ),
        )


def _average(store: Store) -> Obj | None:
    """The parameter that a store averages with what is stored in the same place."""
    value = _inside(store.value)
    if (
        not isinstance(value, Obj)
        or value.kind != "op"
        or value.name != "+"
        or not isinstance(store.node, (ast.Assign, ast.AugAssign))
    ):
        return None
    if store.name == "data":
        return None
    for mine, other in ((0, 1), (1, 0)):
        term = _inside(value.args[mine])
        if isinstance(term, Obj) and term.kind == "op" and term.name == "*":
            factors = [o for a in term.args for o in options_of(a) if isinstance(o, Obj)]
            parameter = next((f for f in factors if _is_parameter(f)), None)
            if parameter is not None and _stored(value.args[other], store):
                return parameter
    return None


def _stored(value: Value, store: Store) -> bool:
    """Whether a term is made from what is stored in the same container."""
    targets = {id(o) for o in options_of(store.target)}
    parts = list(provenance(value, 60))
    if any(
        id(p) in targets or (isinstance(p, Unknown) and p.reason.startswith("entry of a dictionary")) for p in parts
    ):
        return True
    return any(_entry(p, store.target) for p in parts)


def _entry(part: Value, target: Value) -> bool:
    base = settle(target)
    return isinstance(base, Dict) and any(part is o for v in base.entries.values() for o in options_of(v))


def _inside(value: Value) -> Value | None:
    """The operation inside ``(...).clone()``."""
    base = next(iter(options_of(value)), None)
    while (
        isinstance(base, Obj) and base.name in (".clone", ".to", ".cuda", ".contiguous") and base.receiver is not None
    ):
        base = next(iter(options_of(base.receiver)), None)
    return base


_PARAMETERS = (".parameters", ".named_parameters")


def _is_parameter(value: Obj) -> bool:
    """Whether a value is one of the parameters that a module lists, as it is."""
    base: Value | None = value
    for _ in range(3):
        if not isinstance(base, Obj):
            return False
        if base.kind == "call" and base.name in _PARAMETERS:
            return base is not value
        if base.kind != "item":
            return False
        base = next(iter(options_of(base.receiver)), None)
    return isinstance(base, Obj) and base.name in _PARAMETERS
