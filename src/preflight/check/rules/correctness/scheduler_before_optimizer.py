"""The scheduler steps before the optimizer.

## What it does
Looks for a scheduler whose first step() comes before the first step() of its optimizer.

## Why
A PyTorch scheduler sets its first learning rate when it is made.
A step before any optimizer step throws that value away: the whole schedule runs one step early.
A warm-up loses its first value; milestones come one epoch too soon.
PyTorch says so once, with a warning that is easily missed.

## Fix
Call `scheduler.step()` after `optimizer.step()`.

## When to ignore
When the schedule was shifted on purpose to make up for it.

## References
- PyTorch, `torch.optim`, "How to adjust learning rate": the order changed with PyTorch 1.1
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.parameters import stepped
from preflight.check.queries.schedules import first_pass, kind_of, optimizer_of, schedulers, steps_of, steps_plainly
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import guarded_more, same_guards
from preflight.source.values import Func, Known, Method, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="scheduler-before-optimizer",
    code="SCH002",
    severity="warning",
    confidence="likely",
    needs=("scheduler",),
    tags=("schedule",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(8, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 100))
for x, y in loader:
    nn.functional.cross_entropy(model(x), y).backward()
    if state.waiting == 0:
        schedule.step()
        optimizer.step()
        optimizer.zero_grad()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
for epoch in range(90):
    scheduler.step()
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    """
import argparse
import torch.nn as nn
from torch.optim import SGD
from torch.optim import lr_scheduler as lrs
parser = argparse.ArgumentParser()
parser.add_argument("--warm", type=int, default=1)
args = parser.parse_args()
net = nn.Linear(10, 2)
opt = SGD(net.parameters(), lr=0.1)
warm = lrs.LinearLR(opt, start_factor=0.01, total_iters=args.warm * len(loader))
def train(epoch):
    for x, y in loader:
        if epoch <= args.warm:
            warm.step()
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
for epoch in range(1, 11):
    train(epoch)
""",
    """
import torch
from torch import nn
from transformers import get_linear_schedule_with_warmup as linear
class Trainer:
    def __init__(self):
        self.model = nn.Linear(10, 2)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler()
        self.schedule = linear(self.optimizer, 10, 1000)
    def step(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = nn.functional.cross_entropy(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.schedule.step()
        self.scaler.step(self.optimizer)
        self.scaler.update()
trainer = Trainer()
for x, y in loader:
    trainer.step(x, y)
""",
    """
import torch
from ignite.engine import Engine, Events
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
def update(engine, batch):
    optimizer.zero_grad()
    loss = model(batch).mean()
    loss.backward()
    optimizer.step()
    return loss.item()
trainer = Engine(update)
trainer.add_event_handler(Events.ITERATION_STARTED, lambda engine: scheduler.step())
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
for epoch in range(90):
    if epoch > 0:
        scheduler.step()
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    """
import torch
from torch import nn
g, d = nn.Linear(10, 10), nn.Linear(10, 1)
opt_g = torch.optim.Adam(g.parameters(), lr=1e-4)
opt_d = torch.optim.Adam(d.parameters(), lr=1e-4)
sched_g = torch.optim.lr_scheduler.ExponentialLR(opt_g, 0.99)
sched_d = torch.optim.lr_scheduler.ExponentialLR(opt_d, 0.99)
for x in loader:
    opt_d.zero_grad()
    d(x).mean().backward()
    opt_d.step()
    sched_d.step()
    opt_g.zero_grad()
    d(g(x)).mean().backward()
    opt_g.step()
    sched_g.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
for epoch in range(90):
    plateau.step(evaluate(model))
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the order of the first steps."""
    for scheduler in schedulers(context):
        if kind_of(scheduler) == "ReduceLROnPlateau":
            continue
        optimizer = optimizer_of(context, scheduler)
        if optimizer is None:
            continue
        steps = [
            e
            for loop in context.reading.loops
            for e in loop.steps
            if not e.context.shadow and _is_of(context, e, optimizer)
        ]
        events = [e for e in steps_of(context, scheduler) if steps_plainly(e) and e.context.loops()]
        if not steps or not events:
            continue
        first = min(events, key=lambda e: e.number)
        yield from _early(context, scheduler, first, steps)
    yield from _handlers(context)


def _is_of(context: Context, event: Event, optimizer: Obj) -> bool:
    found = stepped(context.reading, event)
    return found is None or found is optimizer


def _early(context: Context, scheduler: Obj, first: Event, steps: list[Event]) -> Iterator[Finding]:
    if any(step.number < first.number for step in steps):
        return
    frame = first.context.loops()[0]
    after = [s for s in steps if s.context.within(frame) and same_guards(first, s)]
    if not after:
        return
    for guard in guarded_more(first, frame):
        if all(step.context.within(guard) for step in steps):
            continue  # no pass that leaves it out steps the optimizer either
        if guard.taken is not True and first_pass(guard.value) is not guard.polarity:
            return  # the first pass may not come here
    yield _finding(context, first, after[0], scheduler)


def _finding(context: Context, first: Event, step: Event | None, scheduler: Obj) -> Finding:
    kind = kind_of(scheduler) or "scheduler"
    return context.finding(
        RULE,
        first,
        f"{kind}.step() comes before the first optimizer.step(): the first learning rate of the schedule is never used",
        evidence=[Evidence("optimizer steps before the first scheduler step", 0)],
        fix=Fix(
            title="call scheduler.step() after optimizer.step()",
            instruction="move the call behind the optimizer's step (for a schedule of epochs: to the end of the epoch)",
            expected="the schedule begins with its first value",
        ),
        related=[(step, "the optimizer steps here")] if step is not None else [],
    )


def _handlers(context: Context) -> Iterator[Finding]:
    """Ignite: a handler of the start of an iteration that steps a scheduler of PyTorch."""
    for event in context.trace.calls(".add_event_handler"):
        when = settle(event.args[0]) if len(event.args) > 1 else None
        if not str(getattr(when, "name", "")).endswith("Events.ITERATION_STARTED"):
            continue
        scheduler = _stepped_by(event.args[1])
        if isinstance(scheduler, Obj) and kind_of(scheduler) is not None and context.roles.of(scheduler) == "scheduler":
            yield _finding(context, event, None, scheduler)


def _stepped_by(handler: Value) -> Value | None:
    base = settle(handler)
    if isinstance(base, Method) and base.name == "step":
        return settle(base.receiver)
    if isinstance(base, Func) and isinstance(base.node, ast.Lambda) and isinstance(base.node.body, ast.Call):
        target = base.node.body.func
        if isinstance(target, ast.Attribute) and target.attr == "step" and isinstance(target.value, ast.Name):
            scope = base.closure
            while scope is not None and target.value.id not in scope.locals:
                scope = scope.closure
            found = (scope.locals if scope is not None else base.module.namespace).get(target.value.id)
            return settle(found) if found is not None else None
    return Known(None)
