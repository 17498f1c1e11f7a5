"""Object that accelerate never prepared.

## What it does
Looks for a training loop with `accelerator.backward(...)` whose model, optimizer or loader was never given to `accelerator.prepare`.

## Why
An unprepared model is not wrapped, so its gradients are not reduced; an unprepared optimizer steps with gradients that are still multiplied by the loss scale, and on every accumulation step; an unprepared loader gives every rank all data, on the CPU.

## Fix
Give all of them to `prepare`, and use what it returns.

## When to ignore
When the object is frozen or is meant to be the same on each rank.

## References
- Hugging Face documentation, accelerate.Accelerator.prepare
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.training import TrainingLoop, same_guards
from preflight.source.values import Obj, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="not-prepared",
    code="ACL003",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="D",
    tags=("accelerate", "distributed"),
)

_MAIN = """
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader
accelerator = Accelerator()
model = nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(dataset, 8)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
"""

BAD = (
    _MAIN.replace(
        "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
        "model, loader = accelerator.prepare(model, loader)",
    ),
    _MAIN.replace("import torch\nfrom accelerate import Accelerator", "import torch\nimport accelerate as hf")
    .replace("Accelerator()", "hf.Accelerator()")
    .replace(
        "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
        "model, optimizer = accelerator.prepare(model, optimizer)",
    ),
    """
import argparse, torch
from accelerate import Accelerator
from torch import nn
class Trainer:
    def __init__(self, args):
        self.accelerator = Accelerator()
        self.model = nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr)
        self.loader = torch.utils.data.DataLoader(dataset)
        self.optimizer, self.loader = self.accelerator.prepare(self.optimizer, self.loader)
    def train(self):
        for x in self.loader:
            self.optimizer.zero_grad()
            self.accelerator.backward(self.model(x).mean())
            self.optimizer.step()
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=0.1)
Trainer(p.parse_args()).train()
""",
)

GOOD = (
    _MAIN,
    _MAIN.replace(
        "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
        "model, optimizer, loader = accelerator.prepare(*parts)",
    ),
    _MAIN.replace(
        "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
        "model = accelerator.prepare_model(model)\noptimizer = accelerator.prepare_optimizer(optimizer)\nloader = accelerator.prepare_data_loader(loader)",
    ),
    _MAIN.replace("model(x)", "model(teacher(x))").replace(
        "model = nn", "teacher = nn.Linear(4, 4).eval()\nmodel = nn"
    ),
    """
import torch
from accelerate import Accelerator
from torch import nn
accelerator = Accelerator() if asked else None
model = nn.Linear(4, 2)
loader = torch.utils.data.DataLoader(dataset, 8)
if accelerator is not None:
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
else:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    if accelerator is not None:
        accelerator.backward(loss)
    else:
        loss.backward()
    optimizer.step()
""",
)

_PREPARES = (".prepare", ".prepare_model", ".prepare_data_loader", ".prepare_optimizer", ".prepare_scheduler")
_EFFECTS = {
    "model": "it is not wrapped, so gradients are not reduced between the ranks",
    "optimizer": "it steps on every micro-batch, with gradients that may still be scaled",
    "loader": "every rank gets all data, on the CPU",
}


def check(context: Context) -> Iterator[Finding]:
    """Find what a loop uses unprepared."""
    calls = [e for e in context.trace.calls(*_PREPARES) if context.roles.of(e.receiver) == "accelerator"]
    if not context.reading.made("accelerator") or any(
        getattr(e.result, "open_args", False) or _starred(e.node) for e in calls
    ):
        return
    if any(context.roles.of(e.receiver) not in ("accelerator",) for e in context.trace.calls(*_PREPARES)):
        return
    prepared = {id(o) for e in calls for a in (*e.args, *e.kwargs.values()) for o in options_of(a)}
    # A prepared network covers its parts, also those that the optimizer was given on their own.
    given = [o for e in calls for a in (*e.args, *e.kwargs.values()) for o in options_of(a)]
    covered = any(context.roles.of(o) not in ("optimizer", "loader", "scheduler") for o in given)
    for loop in context.reading.loops:
        backward = loop.backwards[0]
        if loop.frame.shadow or context.roles.of(backward.receiver) != "accelerator":
            continue
        for role, obj in _used(context, loop):
            if id(obj) in prepared or (role == "model" and covered):
                continue
            made = context.reading.event_of(obj)
            if made is not None and not same_guards(made, backward):
                continue  # it is made for the way without Accelerate
            yield context.finding(
                RULE,
                obj,
                f"this {role} is used with accelerator.backward() but was never given to prepare(): {_EFFECTS[role]}",
                evidence=[Evidence("calls of prepare", len(calls)), Evidence(f"of them with this {role}", 0)],
                fix=Fix(
                    title=f"give the {role} to accelerator.prepare",
                    instruction="prepare model, optimizer and loaders together, and use what prepare returns",
                    expected=f"accelerate handles the {role}",
                ),
                related=[(backward, "the loop that uses it")],
            )


def _starred(node: object) -> bool:
    return isinstance(node, ast.Call) and any(isinstance(a, ast.Starred) for a in node.args)


def _used(context: Context, loop: TrainingLoop) -> Iterator[tuple[str, Obj]]:
    models = {id(m): m for m in context.reading.models}
    called = {id(o) for e in loop.events if e.name == "()" for o in options_of(e.receiver, limit=3)}
    for key, model in models.items():
        if key in called:
            yield "model", model
    for step in loop.steps:
        for option in options_of(step.receiver, limit=3):
            if isinstance(option, Obj) and option.kind == "call" and option.name.startswith("torch.optim."):
                yield "optimizer", option
                break
    frames = [loop.frame, *loop.outer] + ([loop.micro] if loop.micro is not None else [])
    for frame in frames:
        for part in provenance(frame.value, 60):
            if isinstance(part, Obj) and part.name == "torch.utils.data.DataLoader" and part.kind == "call":
                yield "loader", part
                return
