"""A function or argument that was removed or is deprecated.

## What it does
Looks for names of PyTorch, Transformers and NumPy that newer versions have removed, or announce to remove.

## Why
A removed name ends the script with an AttributeError, ImportError, TypeError or RuntimeError after the next update.
Often that is hours into a run, where the name is first used.

## Fix
Use the replacement that the finding names.

## When to ignore
When the version of the library is pinned below the removal.

## References
- The release notes of the libraries; each entry of the table names its source
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, Place, edits
from preflight.check.queries.removed_names import ATTRIBUTES, EPOCH, MODULES, NAMES, NEXT, VERBOSE, Change
from preflight.check.queries.schedules import TORCH, kind_of, steps_plainly
from preflight.check.rule import Rule
from preflight.source.script import Script
from preflight.source.trace import Event
from preflight.source.values import Ext, Obj, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="removed-or-deprecated-name",
    code="DEP001",
    severity="info",
    confidence="certain",
    layer="S",
    tags=("versions",),
)

BAD = (
    """
import torch
from torch._six import inf
limit = torch.tensor(inf)
""",
    """
import torch
values, vectors = torch.symeig(matrix, eigenvectors=True)
""",
    """
import argparse
from torch.utils.data import DataLoader as Loader
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=4)
def first(size):
    loader = Loader(dataset, batch_size=size)
    batches = iter(loader)
    return batches.next()
first(parser.parse_args().size)
""",
    """
import torch
from torch.optim import lr_scheduler as lrs
class Job:
    patient = dict(patience=3, verbose=True)
    def __init__(self):
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)
        self.plateau = lrs.ReduceLROnPlateau(self.opt, **self.patient)
Job()
""",
    """
from torch.nn import init
init.xavier_uniform(weight)
""",
    """
import numpy as np
mask = np.zeros(10, dtype=np.int)
""",
    """
import torch
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
for epoch in range(3):
    train()
    scheduler.step(epoch)
""",
    """
from transformers import AdamW
optimizer = AdamW(model.parameters(), lr=5e-5)
""",
)

GOOD = (
    """
try:
    from torch._six import inf
except ImportError:
    from math import inf
""",
    """
import torch
import numpy as np
from torch.nn import init
values, vectors = torch.linalg.eigh(matrix)
init.xavier_uniform_(weight)
mask = np.zeros(10, dtype=np.int64)
batch = next(iter(torch.utils.data.DataLoader(dataset)))
""",
    """
import torch
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
restarts = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 10)
for epoch in range(3):
    plateau.step(train())
    restarts.step(epoch + 0.5)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look up the names of calls, of arguments, and of methods."""
    told: set[int] = set()
    for name in NAMES.keys() & context.trace.by_name.keys():
        for event in context.trace.by_name[name]:
            if id(event.node) not in told:
                told.add(id(event.node))
                yield _finding(context, event, name, NAMES[name], _renamed(context, event, NAMES[name]))
                if NAMES[name].removed is None and _renamed(context, event, NAMES[name]) is None:
                    break  # one place is enough to say that a name will go
    yield from _attributes(context, told)
    for script in context.reading.scripts:
        yield from _imports(context, script)
    for event in context.trace.calls(".next"):
        holder = settle(event.receiver) if event.receiver is not None else None
        if not isinstance(holder, Obj) or holder.name != "builtins.iter" or not holder.args:
            continue
        if context.roles.of(holder.args[0]) == "loader" and id(event.node) not in told:
            told.add(id(event.node))
            yield _finding(context, event, ".next() of a DataLoader's iterator", NEXT, _next(context, event))
    yield from _schedulers(context)


def _imports(context: Context, script: Script) -> Iterator[Finding]:
    """Imports of modules that are gone, unless something else is done where they fail."""
    found: list[tuple[ast.AST, str]] = []
    for plain in script.nodes(ast.Import):
        found += [(plain, alias.name) for alias in plain.names if alias.name in MODULES]
    for source in script.nodes(ast.ImportFrom):
        found += [(source, source.module)] if source.module in MODULES else []
    if not found:
        return
    choices = (*script.nodes(ast.Try), *script.nodes(ast.If))
    guarded = {id(part) for choice in choices for part in ast.walk(choice)}
    for node, name in found:
        if id(node) not in guarded:
            yield _finding(context, (script, node), name, MODULES[name], None)


def _attributes(context: Context, told: set[int]) -> Iterator[Finding]:
    if "numpy" not in context.reading.imports:
        return
    for event in (*context.trace.calls_under("numpy."), *context.trace.calls(".astype", ".view")):
        for value in (*event.args, *event.kwargs.values()):
            if (
                isinstance(value, Ext)
                and value.name in ATTRIBUTES
                and value.site is not None
                and id(value.site.node) not in told
            ):
                told.add(id(value.site.node))
                yield _finding(context, value, value.name, ATTRIBUTES[value.name], None)


def _schedulers(context: Context) -> Iterator[Finding]:
    for scheduler in context.reading.made("scheduler"):
        if scheduler.cls is None and scheduler.name.startswith(TORCH) and "verbose" in scheduler.kwargs:
            yield _finding(context, scheduler, f"{kind_of(scheduler)}(verbose=...)", VERBOSE, None)
    for event in context.trace.calls(".step"):
        holder = settle(event.receiver) if event.receiver is not None else None
        if not isinstance(holder, Obj) or holder.cls is not None or steps_plainly(event):
            continue
        kind = holder.name.removeprefix(TORCH)
        if holder.name.startswith(TORCH) and kind not in ("ReduceLROnPlateau", "CosineAnnealingWarmRestarts"):
            yield _finding(context, event, f"{kind}.step(epoch)", EPOCH, None)


def _renamed(context: Context, event: Event, change: Change) -> Edit | None:
    """``init.normal(w)`` becomes ``init.normal_(w)``, where only an underscore is missing."""
    node = event.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if change.instead != event.name + "_":
        return None
    return context.replace((event.script, node.func), event.script.segment(node.func) + "_")


def _next(context: Context, event: Event) -> Edit | None:
    node = event.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    return context.replace(event, f"next({event.script.segment(node.func.value)})")


def _finding(context: Context, place: Place, name: str, change: Change, edit: Edit | None) -> Finding:
    gone = change.removed is not None
    since = f" since {change.library} {change.deprecated}" if change.deprecated else f" in {change.library}"
    when = f"was removed in {change.library} {change.removed}" if gone else f"is deprecated{since}"
    return context.finding(
        RULE,
        place,
        f"{name} {when}: use {change.instead}",
        severity="warning" if gone else "info",
        evidence=[
            Evidence("deprecated in", change.deprecated or "not known", source="published", arithmetic=change.source),
            Evidence("removed in", change.removed or "not yet", source="published", arithmetic=change.source),
        ],
        fix=Fix(
            title=f"use {change.instead}",
            safe=edit is not None,
            edits=edits(edit) if edit is not None else (),
            instruction=f"replace it by {change.instead}",
            expected="the script runs with new versions",
        ),
    )
