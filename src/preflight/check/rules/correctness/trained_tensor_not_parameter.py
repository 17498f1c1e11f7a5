"""A tensor that requires gradients is not a parameter.

## What it does
Reports attributes of a module that hold a plain tensor with `requires_grad=True`, in a script whose optimizer gets the module's `parameters()` only.

## Why
`parameters()` lists `nn.Parameter` objects only.
The tensor gets gradients and is never updated; it is not saved, and it stays on the CPU when the model moves.

## Fix
Wrap it in `nn.Parameter`.

## When to ignore
When gradients with respect to the tensor are wanted, but no training.

## References
- PyTorch documentation of Parameter
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.modes import holds
from preflight.check.queries.tensors import operation, source_text
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Store, provenance
from preflight.source.values import Obj, plain, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="trained-tensor-not-parameter",
    code="MOD014",
    severity="error",
    confidence="likely",
    needs=("optimizer",),
    layer="D",
    tags=("modules",),
)

BAD = (
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.scale = torch.ones(8, requires_grad=True)
    def forward(self, x):
        return self.fc(x) * self.scale
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.setup()
    def setup(self):
        self.fc = nn.Linear(8, 1)
        self.bias = torch.zeros(1).requires_grad_()
    def forward(self, x):
        return self.fc(x) + self.bias
def main():
    net = Net()
    return torch.optim.AdamW(net.parameters())
main()
""",
    """
import argparse, torch
from torch.autograd import Variable
p = argparse.ArgumentParser()
p.add_argument("--n", type=int, default=4)
args = p.parse_args()
class Prompt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
        self.tokens = Variable(torch.randn(args.n, 8), requires_grad=True)
    def forward(self, x):
        return self.fc(torch.cat([self.tokens, x]))
net = Prompt()
opt = torch.optim.Adam(net.parameters())
""",
)

GOOD = (
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.scale = torch.ones(8, requires_grad=True)
        self.shift = nn.Parameter(torch.zeros(8), requires_grad=True)
        self.fixed = torch.ones(8, requires_grad=False)
    def forward(self, x):
        return self.fc(x) * self.scale + self.shift
net = Net()
opt = torch.optim.SGD([{"params": net.parameters()}, {"params": [net.scale]}], lr=0.1)
""",
    """
import torch, torch.nn as nn
class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        weight = torch.ones(8, requires_grad=True)
        self.register_parameter("weight", nn.Parameter(weight))
        self.alphas = torch.zeros(3, requires_grad=True)
    def arch_parameters(self):
        return [self.alphas]
net = Probe()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
arch = torch.optim.Adam(net.arch_parameters())
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for attributes with gradients that no optimizer is given."""
    held: set[int] | None = None
    for store in context.trace.stores:
        value = settle(store.value)
        if not isinstance(value, Obj) or store.name.startswith("[") or not _requires_grad(value):
            continue
        owner = settle(store.target)
        if not isinstance(owner, Obj) or owner.cls is None or not is_module(owner):
            continue
        if held is None:
            optimizers = context.reading.made("optimizer")
            held = {id(p) for o in optimizers for a in (*o.args, *o.kwargs.values()) for p in provenance(a, 400)}
        if id(value) in held or not _whole_model(context, owner) or _used_otherwise(context, value):
            continue
        yield context.finding(
            RULE,
            store,
            f"self.{store.name} requires gradients but is no nn.Parameter: "
            "parameters() leaves it out, so it is never updated",
            evidence=[Evidence("assigned", source_text(context, value)), Evidence("in parameters()", False)],
            fix=Fix(
                title="make it a parameter",
                edits=edits(_edit(context, store)),
                instruction=f"self.{store.name} = nn.Parameter(tensor)",
                expected="the optimizer updates it and the checkpoint saves it",
            ),
        )


def _requires_grad(value: Obj) -> bool:
    if value.name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter") or is_module(value):
        return False
    name = operation(value)
    if name == "requires_grad_" and value.receiver is not None:
        inner = settle(value.receiver)
        given = value.argument(0, "requires_grad")
        return (
            isinstance(inner, Obj)
            and inner.name.startswith("torch.")
            and not is_module(inner)
            and (given is None or plain(given) is True)
            and inner.name not in ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
        )
    made = value.kind == "call" and value.name.startswith("torch.") and value.name.count(".") <= 2
    return made and plain(value.kwargs.get("requires_grad")) is True


def _whole_model(context: Context, owner: Obj) -> bool:
    """Whether the optimizer gets ``parameters()`` of this module or of one that holds it."""
    return any(m is owner or holds(m, owner) for m in context.reading.models)


def _used_otherwise(context: Context, value: Obj) -> bool:
    """Whether the tensor is asked for its gradient by hand, or handed to code that cannot be seen."""
    events = context.trace.calls("torch.autograd.grad", ".register_parameter", "torch.nn.Parameter")
    given = (a for e in events for a in (*e.args, *e.kwargs.values()))
    return any(p is value for a in given for p in provenance(a, 60))


def _edit(context: Context, store: Store) -> Edit | None:
    """Wrap the tensor; the request for gradients inside is harmless."""
    node = store.node
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Attribute):
        return None
    names = {
        a.asname or a.name
        for n in store.script.tree.body
        if isinstance(n, (ast.Import, ast.ImportFrom))
        for a in n.names
    }
    text = store.script.segment(node.value)
    prefix = "nn." if "nn" in names else "torch.nn." if "torch" in names else None
    return (
        context.replace((store.script, node.value), f"{prefix}Parameter({text})")
        if prefix and "#" not in text
        else None
    )
