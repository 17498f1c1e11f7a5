"""A learning-rate scheduler is made and never stepped.

## What it does
Finds an optimizer that steps and has a scheduler of PyTorch, none of which takes a step to the end of the script.
By reading, it speaks where the scheduler is handed to nothing else, and every call of a `step()` in the script was followed.

## Why
A scheduler changes nothing by itself: the learning rate stays at the first value of the schedule for the whole training.
After a warm-up schedule that is a tiny rate, or 0; after a decay it is the peak.

## Fix
Call `scheduler.step()` once per epoch, or once per optimizer step where the schedule counts steps.

## When to ignore
When the scheduler is only there to be saved, or is stepped by code that is not part of the script.

## References
- PyTorch, `torch.optim`, "How to adjust learning rate"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.handed_on import handed_on
from preflight.check.queries.schedules import kind_of, optimizer_of, schedulers
from preflight.check.queries.updates import managed, updates
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Obj, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="scheduler-never-steps",
    code="SCH016",
    severity="warning",
    confidence="likely",
    needs=("scheduler", "training_loop"),
    layer="D",
    tags=("scheduler",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=90)
for epoch in range(90):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    print(epoch, scheduler.get_last_lr())
""",
    """
import torch
from transformers import get_linear_schedule_with_warmup
class Trainer:
    def __init__(self, net):
        self.net = net
        self.opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
        self.schedule = get_linear_schedule_with_warmup(self.opt, 100, 10_000)
    def fit(self, loader):
        for x in loader:
            self.opt.zero_grad()
            self.net(x).mean().backward()
            self.opt.step()
Trainer(torch.nn.Linear(8, 2)).fit(data)
""",
    """
import torch
net = torch.nn.Linear(8, 2)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: min(1.0, step / 100))
for step, x in enumerate(data):
    opt.zero_grad()
    net(x).sum().backward()
    opt.step()
torch.save({"net": net.state_dict(), "schedule": warm.state_dict()}, "end.pt")
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
parts = [torch.optim.lr_scheduler.LinearLR(opt), torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10)]
schedule = torch.optim.lr_scheduler.SequentialLR(opt, parts, milestones=[2])
for epoch in range(3):
    for x in data:
        opt.zero_grad()
        net(x).sum().backward()
        opt.step()
    schedule.step()
""",
    """
import torch
from helpers import after_epoch
net = torch.nn.Linear(8, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(opt, 2)
for epoch in range(30):
    for x in data:
        opt.zero_grad()
        net(x).sum().backward()
        opt.step()
    after_epoch(net, schedule)
""",
    """
import torch
net = torch.nn.Linear(8, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(opt, 2)
class Callback:
    def on_epoch_end(self):
        schedule.step()
callback = Callback()
for epoch in range(30):
    for x in data:
        opt.zero_grad()
        net(x).sum().backward()
        opt.step()
    run_all(epoch)
""",
    """
import torch
nets = [torch.nn.Linear(8, 2), torch.nn.Linear(8, 2)]
opts = [torch.optim.Adam(net.parameters()) for net in nets]
schedules = [torch.optim.lr_scheduler.StepLR(opt, 2) for opt in opts]
for x in data:
    for net, opt in zip(nets, opts):
        opt.zero_grad()
        net(x).sum().backward()
        opt.step()
    for schedule in schedules:
        schedule.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(opt)
def hook(value):
    schedule.step(value)
for epoch in range(30):
    for x in data:
        opt.zero_grad()
        loss = net(x).sum()
        loss.backward()
        opt.step()
    hook(loss.item())
""",
)


_HARMLESS = ("builtins.print", "torch.save")


def check(context: Context) -> Iterator[Finding]:
    """Find schedulers without a step, where every step of the script is accounted for."""
    if managed(context):
        return
    driven = {id(update.optimizer): update for update in updates(context)}
    idle: dict[int, list[Obj]] = {}
    for scheduler in schedulers(context):
        optimizer = optimizer_of(context, scheduler)
        if optimizer is not None and id(optimizer) in driven:
            idle.setdefault(id(optimizer), []).append(scheduler)
    if not idle or _unfollowed_steps(context):
        return
    for key, made in idle.items():
        if any(
            context.trace.on(one, "step") or _looped(context, one) or handed_on(context, one, _HARMLESS) for one in made
        ):
            continue
        yield context.finding(
            RULE,
            made[-1],
            f"{kind_of(made[-1])} never steps: the learning rate stays where the schedule begins",
            evidence=[Evidence("steps of the scheduler in the script", 0)],
            fix=Fix(
                title="step the scheduler",
                instruction="call scheduler.step() after each epoch, or after each optimizer step where the schedule counts steps",
                expected="the learning rate follows the schedule",
            ),
            related=[(driven[key].steps[0], "the optimizer steps here")],
        )


def _unfollowed_steps(context: Context) -> bool:
    """Whether the script calls a ``step`` somewhere that was not followed, or of something that is not known."""
    followed, made = set(), schedulers(context)
    for event in context.trace.calls(".step", ".step_update"):
        followed.add(id(event.node))
        role = context.roles.of(event.receiver)
        if role is None:
            return True
        if role == "scheduler" and not any(one is other for one in options_of(event.receiver) for other in made):
            return True  # one of a list, which may be any of them
    return any(
        isinstance(node.func, ast.Attribute) and node.func.attr in ("step", "step_update") and id(node) not in followed
        for script in context.reading.scripts
        for node in script.nodes(ast.Call)
    )


def _looped(context: Context, scheduler: Obj) -> bool:
    """Whether a loop goes through a list with it and steps what it finds there."""
    return any(
        frame.kind == "loop"
        and frame.value is not None
        and any(part is scheduler for part in provenance(frame.value, 60))
        for event in context.trace.calls(".step", ".step_update")
        for frame in event.context.frames()
    )
