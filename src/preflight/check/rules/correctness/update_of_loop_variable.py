"""An update makes a new tensor and leaves the parameter as it is.

## What it does
Looks for `p = p - lr * p.grad`: in a loop over parameters, where the result is thrown away, and in a training loop, where the next pass works on a tensor that is no leaf.

## Why
`p - lr * p.grad` is a new tensor, and `p = ...` only gives it a name.
In a loop over parameters the model never changes.
For a tensor of one's own the second pass fails: a result has no `.grad`.

## Fix
Change it in place under `torch.no_grad()`: `p -= lr * p.grad`.

## When to ignore
Never, where the loop is to train.

## References
- PyTorch documentation, "Learning PyTorch with Examples": autograd
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.script import Script
from preflight.source.trace import Carry, provenance
from preflight.source.values import Known, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="update-of-loop-variable",
    code="OPT006",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("optimizer", "autograd"),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
for x, y in data:
    model.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        for p in model.parameters():
            p = p - 0.1 * p.grad
""",
    """
import torch as t
w = t.zeros(3, requires_grad=True)
for x, y in data:
    loss = ((x * w).sum() - y).pow(2)
    loss.backward()
    w = w - 0.01 * w.grad
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.5)
args = parser.parse_args()
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(4, 1)
    def apply(self):
        for name, weight in self.net.named_parameters():
            weight = weight.data - args.lr * weight.grad.data
    def update(self, x):
        self.net.zero_grad()
        self.net(x).mean().backward()
        self.apply()
t = Trainer()
for x in data:
    t.update(x)
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
for x, y in data:
    model.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
fast = []
for p in model.parameters():
    p = p - 0.1 * p.grad
    fast.append(p)
""",
    """
import torch
w = torch.zeros(3, requires_grad=True)
for x, y in data:
    loss = ((x * w).sum() - y).pow(2)
    loss.backward()
    with torch.no_grad():
        w = w - 0.01 * w.grad
    w.requires_grad_()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at loops over parameters, then at what the training loops carry."""
    for script in context.reading.scripts:
        if ".grad" in "\n".join(script.lines):
            for node in ast.walk(script.tree):
                if isinstance(node, ast.For):
                    yield from _thrown_away(context, script, node)
    for carry in context.trace.carried:
        made = _rebuilt(context, carry)
        if made is not None:
            yield _finding(
                context,
                made,
                f"{carry.name} becomes the result of an operation, which has no .grad: the second pass fails",
                carry.name,
            )


def _finding(context: Context, place: Obj | tuple[Script, ast.AST], text: str, name: str) -> Finding:
    return context.finding(
        RULE,
        place,
        text,
        evidence=[Evidence("parameters that change", 0)],
        fix=Fix(
            title="change the parameter in place",
            safe=False,
            instruction=f"write {name} -= ... under torch.no_grad(), or use an optimizer",
            expected="the parameter itself is updated",
        ),
    )


def _thrown_away(context: Context, script: Script, loop: ast.For) -> Iterator[Finding]:
    """Assignments to the loop's variable from itself and its gradient that nothing reads afterwards."""
    names = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    nodes = [n for statement in loop.body for n in ast.walk(statement)]
    for node in nodes:
        if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
            continue
        name = node.targets[0].id
        if name not in names or not isinstance(node.value, ast.BinOp) or not _uses_grad(node.value, name):
            continue
        after = [
            n
            for n in nodes
            if isinstance(n, ast.Name)
            and n.id == name
            and isinstance(n.ctx, ast.Load)
            and n.lineno > (node.end_lineno or 0)
        ]
        if not after:
            text = f"{name} = ... makes a new tensor that nothing uses: the parameter itself does not change"
            yield _finding(context, (script, node), text, name)


def _uses_grad(value: ast.AST, name: str) -> bool:
    return any(
        isinstance(n, ast.Attribute) and n.attr == "grad" and isinstance(n.value, ast.Name) and n.value.id == name
        for n in ast.walk(value)
    )


def _rebuilt(context: Context, carry: Carry) -> Obj | None:
    """The operation that replaces a leaf tensor by its own update."""
    before, final = settle(carry.before), carry.final
    if (
        not isinstance(before, Obj)
        or not isinstance(final, Obj)
        or final.kind != "op"
        or final.name not in ("-", "+")
        or final.data == "augmented"
    ):
        return None
    leaf = before.kwargs.get("requires_grad")
    known = settle(leaf) if leaf is not None else None
    if not (isinstance(known, Known) and known.value is True) and before.name not in (
        "torch.nn.Parameter",
        ".requires_grad_",
    ):
        return None
    mine = [p for p in provenance(final, 60) if isinstance(p, Obj) and p.kind == "attr" and p.name == "grad"]
    if not any(settle(p.receiver) is before for p in mine if p.receiver is not None):
        return None
    if context.trace.on(final, "requires_grad_", "detach", "retain_grad") or any(
        s.name == "requires_grad" for s in context.trace.stores
    ):
        return None
    return final
