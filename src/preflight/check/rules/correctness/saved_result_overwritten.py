"""A result that the backward pass needs is changed in place.

## What it does
Looks for `+=`, `*=`, `add_()` and the like on what a sigmoid, tanh, soft-max, exponential, root or ReLU has just given, where gradients flow through.

## Why
These functions keep their result to compute their derivative from it.
Once it is overwritten, `backward()` raises "one of the variables needed for gradient computation has been modified by an inplace operation".

## Fix
Write `h = h + x`.

## When to ignore
Never: the first backward pass stops here.

## References
- PyTorch, "Autograd mechanics": in-place correctness checks
- PyTorch, `tools/autograd/derivatives.yaml`: which functions save `result`
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.backward_graph import graph as behind
from preflight.check.queries.tensors import Graph, grad_off, graph, is_method, operation
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import parents_of
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="saved-result-overwritten",
    code="AUT008",
    severity="error",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("autograd",),
)

BAD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 10)
    def forward(self, x):
        h = torch.sigmoid(self.a(x))
        h += self.b(h)
        return self.head(h)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
""",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
    def forward(self, x):
        out = F.relu(self.conv(x))
        out += x
        return out
block = Block()
optimizer = torch.optim.Adam(block.parameters())
for x in loader:
    optimizer.zero_grad()
    block(x).mean().backward()
    optimizer.step()
""",
    """
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--floor", type=float, default=1e-6)
args = p.parse_args()
net = torch.nn.Linear(4, 3)
opt = torch.optim.Adam(net.parameters())
for x in loader:
    weights = net(x).softmax(-1)
    weights.add_(args.floor)
    opt.zero_grad()
    weights.log().mean().neg().backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.head = nn.Linear(32, 32), nn.LayerNorm(32), nn.Linear(32, 10)
    def forward(self, x):
        h = self.norm(self.a(x))
        h += x
        g = torch.sigmoid(h)
        g = g + h
        return self.head(g)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
""",
    """
import torch
net = torch.nn.Linear(4, 3)
opt = torch.optim.Adam(net.parameters())
for x, y in loader:
    weights = torch.sigmoid(x)
    weights += 1
    opt.zero_grad()
    (net(x) * weights).mean().backward()
    opt.step()
    with torch.no_grad():
        shown = net(x).softmax(-1)
        shown *= 100
""",
)

_SAVED = frozenset({"sigmoid", "tanh", "softmax", "log_softmax", "exp", "sqrt", "rsqrt", "relu", "reciprocal"})
_WRITES = frozenset(
    {".add_", ".sub_", ".mul_", ".div_", ".masked_fill_", ".clamp_", ".clamp_min_", ".clamp_max_", ".zero_"}
)


def check(context: Context) -> Iterator[Finding]:
    """Look at what is written to in place on the way of the gradient."""
    found = graph(context)
    told: set[int] = set()
    for value, target in _written(found.values.values()):
        made = settle(target)
        if not isinstance(made, Obj) or operation(made) not in _SAVED or id(made) in told:
            continue
        if not found.trains(made) or grad_off(value.context) or not (found.trains(value) or _used(found, made, value)):
            continue
        if not _learns(made):
            continue
        told.add(id(made))
        yield context.finding(
            RULE,
            value,
            f"the result of {operation(made)} is changed in place, and its derivative is computed from it: backward() raises",
            evidence=[Evidence("kept for the backward pass", f"the result of {operation(made)}")],
            fix=Fix(
                title="write the change to a new tensor",
                safe=False,
                edits=edits(_edit(context, value)),
                instruction="h = h + x in the place of h += x",
                expected="backward() finds the result as it was",
            ),
            related=[(made, "the result that is needed")],
        )


def _written(values: Iterable[Obj]) -> Iterator[tuple[Obj, Value]]:
    """What is written in place, with what it is written to."""
    for value in values:
        if value.kind == "op" and value.site is not None and isinstance(value.site.node, ast.AugAssign):
            if len(value.args) == 2:
                yield value, value.args[0]
        elif is_method(value) and value.name in _WRITES and value.receiver is not None:
            yield value, value.receiver


def _used(found: Graph, made: Obj, write: Obj) -> bool:
    """Whether the loss is computed from a result after it was written to: the backward pass comes later still."""
    return any(
        value.number > write.number and found.trains(value) and any(part is made for part in parents_of(value))
        for value in found.values.values()
    )


def _learns(made: Obj) -> bool:
    """Whether a network with parameters is behind a value: a tensor of data wants no gradient."""
    return any(
        isinstance(part, Obj) and part.kind == "call" and part.name == "()" and is_module(part.receiver)
        for part in behind(made)
    )


def _edit(context: Context, value: Obj) -> Edit | None:
    """Write ``h += x`` as ``h = h + x``, where ``h`` is a name."""
    site = value.site
    if site is None or not isinstance(site.node, ast.AugAssign) or not isinstance(site.node.target, ast.Name):
        return None
    sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}.get(type(site.node.op))
    if sign is None:
        return None
    name, other = site.node.target.id, site.script.segment(site.node.value)
    simple = isinstance(site.node.value, (ast.Name, ast.Call, ast.Attribute, ast.Constant, ast.Subscript))
    return context.replace((site.script, site.node), f"{name} = {name} {sign} {other if simple else f'({other})'}")
