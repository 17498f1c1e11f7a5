"""The compiled module is not the one that is used.

## What it does
Looks for `torch.compile(model)` whose result is dropped, or is never called while the network it wraps is.

## Why
`torch.compile` returns a new module and leaves the old one as it is: training goes on uncompiled, and the time for tuning flags is spent on nothing.

## Fix
`model = torch.compile(model)`, or `model.compile()`, which changes the module in place.

## When to ignore
When the compiled module is used by code that cannot be seen from the script.

## References
- PyTorch documentation, `torch.compile`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Edit, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Event, provenance
from preflight.source.values import Func, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="compiled-module-unused",
    code="EFF017",
    severity="warning",
    confidence="likely",
    needs=("complete",),
    layer="D",
    tags=("compile",),
)

_LOOP = """
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
_HEAD = """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
BAD = (
    _HEAD + "torch.compile(model)" + _LOOP,
    _HEAD + "from torch import compile as faster\nfast = faster(model, mode='max-autotune')" + _LOOP,
    _HEAD
    + """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true", default=True)
args = parser.parse_args()
def speed_up(net):
    if args.compile:
        torch.compile(net)
speed_up(model)
"""
    + _LOOP,
)
GOOD = (
    _HEAD + "raw = model\nmodel = torch.compile(model)" + _LOOP,
    _HEAD + "fast = torch.compile(model)\nengine = make_engine(fast)" + _LOOP,
    _HEAD + "model.compile()\n@torch.compile\ndef f(x):\n    return model(x)" + _LOOP,
)


def check(context: Context) -> Iterator[Finding]:
    """Find compiled modules that nothing uses."""
    for event in context.trace.calls("torch.compile"):
        if (
            not event.args
            or not is_module(event.args[0])
            or any(isinstance(o, Func) for o in options_of(event.args[0]))
        ):
            continue
        statement = context.statement(event.script, event.node)
        dropped = isinstance(statement, ast.Expr) and statement.value is event.node
        if not dropped and (_used(context, event) or not _inner_called(context, event) or not _bound(statement, event)):
            continue
        edit = _assign(context, event, statement) if dropped else None
        yield context.finding(
            RULE,
            event,
            "the result of torch.compile is dropped: the network stays uncompiled"
            if dropped
            else "the compiled module is never called, while the network that it wraps is: training stays uncompiled",
            evidence=[Evidence("calls of the compiled module", 0)],
            fix=Fix(
                title="use what torch.compile returns",
                edits=edits(edit) if edit is not None else (),
                instruction="model = torch.compile(model), or model.compile()",
                expected="the compiled module trains",
            ),
            confidence="certain" if dropped else None,
        )


def _bound(statement: ast.stmt | None, event: Event) -> bool:
    """Whether the result goes to a plain variable, so that all its uses are seen."""
    return (
        isinstance(statement, ast.Assign)
        and statement.value is event.node
        and isinstance(statement.targets[0], ast.Name)
    )


def _used(context: Context, event: Event) -> bool:
    wanted = {id(o) for o in options_of(event.result)}
    for other in context.trace.events:
        if other is event:
            continue
        for value in (other.receiver, *other.args, *other.kwargs.values()):
            if value is not None and any(id(p) in wanted for p in provenance(value, 12)):
                return True
    return any(any(id(o) in wanted for o in options_of(s.value)) for s in context.trace.stores)


def _inner_called(context: Context, event: Event) -> bool:
    wanted = {id(o) for o in options_of(event.args[0])}
    return any(
        id(o) in wanted
        for loop in context.reading.loops
        for e in loop.events
        if e.name == "()"
        for o in options_of(e.receiver)
    )


def _assign(context: Context, event: Event, statement: ast.stmt | None) -> Edit | None:
    node = event.node
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name) and not _in_function(event):
        return context.replace(event, f"{node.args[0].id} = {event.script.segment(node)}")
    return None


def _in_function(event: Event) -> bool:
    return any(f.kind == "call" for f in event.context.frames())
