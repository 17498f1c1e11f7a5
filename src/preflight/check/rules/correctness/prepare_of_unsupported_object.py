"""Accelerate is given something that it does not prepare.

## What it does
Looks at the arguments of `Accelerator.prepare`: lists, dictionaries, iterators and generators are handed back as they are.

## Why
Only modules, optimizers, schedulers and data loaders are prepared.
A list of loaders comes back unchanged, without an error: every process then goes through all of the data, on the CPU.

## Fix
Hand over each object as an argument of its own: `accelerator.prepare(*loaders)`.

## When to ignore
When the object is not meant to be prepared.

## References
- Accelerate documentation, `Accelerator.prepare`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Dict, Obj, Seq, Value, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="prepare-of-unsupported-object",
    code="ACL002",
    severity="warning",
    confidence="likely",
    layer="D",
    tags=("accelerate",),
)

BAD = (
    """
from accelerate import Accelerator
from torch.utils.data import DataLoader
accelerator = Accelerator()
loaders = [DataLoader(a), DataLoader(b)]
loaders = accelerator.prepare(loaders)
""",
    """
import accelerate as acc
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self, data):
        self.accelerator = acc.Accelerator()
        self.batches = self.accelerator.prepare(iter(DataLoader(data)))
Trainer(records)
""",
    """
import argparse, torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
args = parser.parse_args()
def loaders(data):
    return {"train": DataLoader(data, args.batch), "val": DataLoader(data, args.batch)}
accelerator = Accelerator()
model, data = accelerator.prepare(torch.nn.Linear(4, 1), loaders(records))
""",
)

GOOD = (
    """
from accelerate import Accelerator
from torch.utils.data import DataLoader
accelerator = Accelerator()
loaders = [DataLoader(a), DataLoader(b)]
loaders = accelerator.prepare(*loaders)
""",
    """
import torch
from accelerate import Accelerator
accelerator = Accelerator()
model, extra = accelerator.prepare(torch.nn.Linear(4, 1), unknown())
""",
)

_ITERATORS = frozenset(
    {"builtins.iter", "builtins.zip", "builtins.enumerate", "itertools.cycle", "itertools.chain", "builtins.map"}
)


def check(context: Context) -> Iterator[Finding]:
    """Look at the arguments of each prepare."""
    for event in context.trace.calls(".prepare"):
        if context.roles.of(event.receiver) != "accelerator":
            continue
        for index, value in enumerate(event.args):
            kind = _kind(context, value)
            if kind is None:
                continue
            yield context.finding(
                RULE,
                event,
                f"accelerator.prepare is given {kind}, which it hands back as it is: what is inside is not prepared",
                evidence=[Evidence("argument", index + 1), Evidence("what it is", kind)],
                fix=Fix(
                    title="hand over each object as an argument of its own",
                    safe=False,
                    edits=edits(_edit(context, event, value)),
                    instruction="give prepare the loaders (models, optimizers) themselves: prepare(*loaders)",
                    expected="each process gets its share, on its device",
                ),
            )


def _kind(context: Context, value: Value) -> str | None:
    base = settle(value)
    inside = {"loader", "model", "optimizer", "scheduler"}
    if isinstance(base, Seq) and base.items and any(context.roles.of(i) in inside for i in base.items):
        return f"a {base.kind}"
    if isinstance(base, Dict) and any(context.roles.of(v) in inside for v in base.entries.values()):
        return "a dictionary"
    if (
        isinstance(base, Obj)
        and base.name in _ITERATORS
        and base.args
        and any(context.roles.of(a) == "loader" for a in base.args)
    ):
        return f"the result of {base.name.rpartition('.')[2]}()"
    if isinstance(base, Obj) and base.kind == "generator":
        return "a generator"
    return None


def _edit(context: Context, event: Event, value: Value) -> Edit | None:
    node = event.node
    if (
        not isinstance(node, ast.Call)
        or len(node.args) != 1
        or not isinstance(node.args[0], ast.Name)
        or not isinstance(settle(value), Seq)
    ):
        return None
    return context.replace((event.script, node.args[0]), f"*{node.args[0].id}")
