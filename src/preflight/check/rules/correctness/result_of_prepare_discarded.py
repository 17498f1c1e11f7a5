"""What Accelerate prepares is thrown away.

## What it does
Looks for `accelerator.prepare(...)` whose result nothing receives.

## Why
`prepare` returns new objects: the model wrapped for the distributed run, the loader split over the processes, the optimizer with its scaler.
Thrown away, each process trains its own copy on all of the data, and no gradient is averaged.

## Fix
Assign the result: `model, optimizer, loader = accelerator.prepare(model, optimizer, loader)`.

## When to ignore
Never for models and loaders.

## References
- Accelerate documentation, `Accelerator.prepare`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="result-of-prepare-discarded",
    code="ACL006",
    severity="error",
    confidence="likely",
    layer="D",
    tags=("accelerate",),
)

BAD = (
    """
import torch
from accelerate import Accelerator
accelerator = Accelerator()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
accelerator.prepare(model, optimizer)
""",
    """
import accelerate as acc
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self, data):
        self.accelerator = acc.Accelerator()
        self.loader = DataLoader(data)
        self.accelerator.prepare(self.loader)
Trainer(records)
""",
    """
import argparse, torch
from accelerate import Accelerator
parser = argparse.ArgumentParser()
parser.add_argument("--precision", default="bf16")
args = parser.parse_args()
accelerator = Accelerator(mixed_precision=args.precision)
def setup(model):
    accelerator.prepare(model)
    return model
net = setup(torch.nn.Linear(4, 1))
""",
)

GOOD = (
    """
import torch
from accelerate import Accelerator
accelerator = Accelerator()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
""",
    """
import torch
from accelerate import Accelerator
accelerator = Accelerator()
scheduler = torch.optim.lr_scheduler.StepLR(torch.optim.SGD(torch.nn.Linear(4, 1).parameters(), lr=0.1), 10)
accelerator.register_for_checkpointing(scheduler)
def wrap(model):
    return accelerator.prepare(model)
model = wrap(torch.nn.Linear(4, 1))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find prepare as a statement of its own."""
    for event in context.trace.calls(".prepare"):
        if context.roles.of(event.receiver) != "accelerator":
            continue
        statement = context.statement(event.script, event.node)
        roles = {context.roles.of(a) for a in event.args}
        if (
            not isinstance(statement, ast.Expr)
            or statement.value is not event.node
            or not roles & {"model", "loader", "lightning_module"}
        ):
            continue
        yield context.finding(
            RULE,
            event,
            "the result of accelerator.prepare is thrown away: the loop goes on with the objects that were not prepared",
            severity=None if "loader" not in roles or len(roles) > 1 else "warning",
            evidence=[Evidence("objects handed over", len(event.args)), Evidence("objects received", 0)],
            fix=Fix(
                title="assign the result of prepare",
                safe=False,
                edits=edits(_edit(context, event)),
                instruction="assign what prepare returns to the names of its arguments",
                expected="the loop works on the prepared objects",
            ),
        )


def _edit(context: Context, event: Event) -> Edit | None:
    node = event.node
    if (
        not isinstance(node, ast.Call)
        or node.keywords
        or not all(isinstance(a, (ast.Name, ast.Attribute)) for a in node.args)
    ):
        return None
    names = ", ".join(event.script.segment(a) for a in node.args)
    return context.replace(event, f"{names} = {event.script.segment(node)}")
