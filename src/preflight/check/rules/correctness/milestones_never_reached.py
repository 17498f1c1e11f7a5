"""The milestones of a schedule lie behind the end of training.

## What it does
Compares the milestones of MultiStepLR, and the step size of StepLR, with how often the schedule steps.

## Why
The learning rate never falls: the run ends at the rate that it began with, where most of the gain of such a schedule is to come.
Mostly the milestones count batches, and the schedule is stepped once for each epoch.

## Fix
Count the milestones in what steps the schedule, or step it after every batch.

## When to ignore
When the run is a short trial of a longer one.

## References
- PyTorch, `torch.optim.lr_scheduler.MultiStepLR`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.schedules import kind_of, paces, prepared, schedulers, steps_plainly
from preflight.check.rule import Rule
from preflight.source.values import Obj, plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="milestones-never-reached",
    code="SCH018",
    severity="warning",
    confidence="likely",
    needs=("scheduler", "complete"),
    layer="D",
    tags=("schedule",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[3000, 6000], gamma=0.1)
for epoch in range(90):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    scheduler.step()
""",
    """
import argparse, torch
from torch.optim.lr_scheduler import MultiStepLR as Steps
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
args = parser.parse_args()
net = torch.nn.Linear(10, 2)
opt = torch.optim.Adam(net.parameters())
def train(epochs):
    schedule = Steps(opt, [30, 60])
    for epoch in range(epochs):
        for x, y in loader:
            opt.zero_grad()
            torch.nn.functional.mse_loss(net(x), y).backward()
            opt.step()
        schedule.step()
train(args.epochs)
""",
    """
import torch
class Job:
    def __init__(self):
        self.net = torch.nn.Linear(4, 2)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.opt, step_size=100)
    def run(self):
        for epoch in range(50):
            for x, y in loader:
                self.opt.zero_grad()
                torch.nn.functional.mse_loss(self.net(x), y).backward()
                self.opt.step()
            self.schedule.step()
Job().run()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[60, 300], gamma=0.1)
for epoch in range(90):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    scheduler.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[3000, 6000], gamma=0.1)
for epoch in range(90):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1000, gamma=1.0)
for epoch in range(90):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    scheduler.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
first = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[100, 150], last_epoch=80)
second = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[100, 150])
second.load_state_dict(torch.load("schedule.pt", weights_only=True))
for epoch in range(90):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    first.step()
    second.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare milestones with the steps that there are."""
    for scheduler in schedulers(context):
        first = _first_fall(scheduler)
        if first is None or prepared(context, scheduler) or _goes_on(context, scheduler):
            continue
        each = [p for p in paces(context, scheduler) if steps_plainly(p.event)]
        if len(each) != 1 or each[0].calls is None or not each[0].sure or each[0].calls.number is None:
            continue
        steps = each[0].calls.number
        if not 1 < steps < first:
            continue
        yield context.finding(
            RULE,
            context.reading.event_of(scheduler) or scheduler,
            f"the rate first falls at step {first} of the schedule, which steps {steps:.0f} times: it never falls",
            evidence=[
                Evidence("first milestone", first, "calls of step()"),
                Evidence("calls of step() in the run", str(each[0].calls), arithmetic=f"{steps:.0f} < {first}"),
            ],
            fix=Fix(
                title="count the milestones in what steps the schedule",
                instruction=f"put the milestones below {steps:.0f}, or step the schedule after every batch",
                expected="the learning rate falls during training",
            ),
            related=[(each[0].event, "the scheduler steps here")],
        )


def _goes_on(context: Context, scheduler: Obj) -> bool:
    """Whether a schedule does not begin with this run: it counts on from the steps of an earlier one."""
    begun = plain(scheduler.argument(3, "last_epoch"), -1)
    restored = [e for e in context.trace.on(scheduler, "load_state_dict") if not e.context.shadow]
    return begun != -1 or bool(restored)


def _first_fall(scheduler: Obj) -> int | None:
    """The step at which the rate first changes; None where that is not known."""
    kind = kind_of(scheduler)
    if scheduler.cls is not None or scheduler.open_args or kind not in ("MultiStepLR", "StepLR"):
        return None
    if plain(scheduler.argument(2, "gamma")) == 1:
        return None  # a rate that is to stay
    given = plain(scheduler.argument(1, "milestones" if kind == "MultiStepLR" else "step_size"))
    listed = given if isinstance(given, (list, tuple)) else [given]
    whole = [step for step in listed if isinstance(step, int) and not isinstance(step, bool)]
    return min(whole) if whole and len(whole) == len(listed) else None
