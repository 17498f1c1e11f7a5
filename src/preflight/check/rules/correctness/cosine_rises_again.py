"""A cosine schedule ends before training does, and its rate rises again.

## What it does
Compares the `T_max` of a `CosineAnnealingLR` with the calls of its `step()`, where both are known: it speaks from a quarter more calls on.

## Why
The schedule does not stay at its lowest rate after `T_max` steps: it follows the cosine, and climbs back to the first rate in the next `T_max` steps.
What was learned at small rates is undone at large ones, and the run ends wherever the wave happens to be.

## Fix
Set `T_max` to the number of calls of `step()` in the whole run.

## When to ignore
When the rate is meant to swing; `CosineAnnealingWarmRestarts` says so, and falls each time.

## References
- PyTorch, `torch.optim.lr_scheduler.CosineAnnealingLR`
- Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.schedules import TORCH, Pace, length, paces, prepared, schedulers, steps_plainly
from preflight.check.rule import Rule
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="cosine-rises-again",
    code="SCH017",
    severity="warning",
    confidence="likely",
    needs=("scheduler",),
    layer="D",
    tags=("schedule",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
for epoch in range(90):
    for x, y in train_loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
""",
    """
import argparse
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20_000)
args = parser.parse_args()
net = torch.nn.Linear(10, 2)
opt = torch.optim.AdamW(net.parameters(), lr=3e-4)
cosine = CosineAnnealingLR(opt, 5000, eta_min=3e-5)
for step in range(args.steps):
    opt.zero_grad()
    net(batch()).mean().backward()
    opt.step()
    cosine.step()
""",
    """
import torch
class Trainer:
    def __init__(self, net, epochs):
        self.net, self.epochs = net, epochs
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, T_max=self.epochs // 2)
    def fit(self, loader):
        for epoch in range(self.epochs):
            for x in loader:
                self.opt.zero_grad()
                self.net(x).mean().backward()
                self.opt.step()
            self.schedule.step()
Trainer(torch.nn.Linear(8, 2), 100).fit(data)
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=85)
for epoch in range(90):
    for x, y in train_loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch >= 5:
        scheduler.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 10)
for epoch in range(90):
    for x, y in train_loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)
for epoch in range(90):
    for x, y in train_loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
for rounds in range(5):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    for epoch in range(20):
        for x, y in train_loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
""",
)

_MORE = 1.25
"""So many times as many calls as steps of the schedule are no rounding, no epochs of warm-up."""


def check(context: Context) -> Iterator[Finding]:
    """Find cosines with more calls than they are long."""
    for scheduler in schedulers(context):
        found = length(context, scheduler) if scheduler.name == f"{TORCH}CosineAnnealingLR" else None
        each = paces(context, scheduler)
        if found is None or len(each) != 1 or not steps_plainly(each[0].event) or prepared(context, scheduler):
            continue
        size, calls = found[2].number, _calls(scheduler, each[0])
        if size is None or calls is None or calls < _MORE * size or _counts_epochs(each[0], size):
            continue
        yield context.finding(
            RULE,
            scheduler,
            f"T_max is {size:g}, but step() is called {calls:g} times: after {size:g} calls the learning rate rises again",
            evidence=[
                Evidence("T_max", f"{size:g}", "calls of step()"),
                Evidence(
                    "calls of step() in the run", f"{calls:g}", arithmetic=f"{calls:g} / {size:g} = {calls / size:.3g}"
                ),
            ],
            fix=Fix(
                title=f"set T_max to {calls:g}",
                instruction="make T_max the number of calls of step() in the whole run",
                expected="the rate falls once, over the whole run",
            ),
            related=[(each[0].event, "the scheduler steps here")],
        )


def _calls(scheduler: Obj, pace: Pace) -> float | None:
    """How often it steps for sure; None where a test or an early end decides, or where it is made in one of the loops."""
    made = scheduler.context.loops() if scheduler.context is not None else []
    if not pace.sure or pace.every or pace.calls is None or any(loop in made for loop in pace.loops):
        return None
    return pace.calls.number


def _counts_epochs(pace: Pace, size: float) -> bool:
    """Whether the length is that of the epochs while it steps per batch: other units, which SCH001 tells."""
    return pace.per_batch and pace.epochs is not None and pace.epochs.number == size
