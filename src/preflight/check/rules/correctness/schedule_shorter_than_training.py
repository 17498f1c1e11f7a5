"""A schedule is shorter than the training that steps it.

## What it does
Counts the calls of step() and compares them with the length of the schedule, where both are known.

## Why
OneCycleLR raises `ValueError: Tried to step N+1 times` in the first step beyond its end, hours into the run.
Linear and cosine schedules with warm-up stay at a learning rate of 0 from there on: the rest of training does nothing.

## Fix
Give the schedule the number of steps that training makes: batches per epoch (after accumulation) x epochs.

## When to ignore
When training is stopped by hand before the end of the schedule.

## References
- PyTorch, `torch.optim.lr_scheduler.OneCycleLR`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.counts import Product
from preflight.check.queries.schedules import Pace, kind_of, length, paces, prepared, schedulers, steps_plainly
from preflight.check.rule import Rule
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="schedule-shorter-than-training",
    code="SCH003",
    severity="error",
    confidence="likely",
    needs=("scheduler",),
    tags=("schedule",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=20)
for epoch in range(20):
    for x, y in train_loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
""",
    """
import argparse
import torch.nn as nn
from torch.optim import Adam
from torch.optim.lr_scheduler import OneCycleLR as Cycle
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1000)
args = parser.parse_args()
model = nn.Linear(10, 2)
optimizer = Adam(model.parameters(), lr=1e-3)
scheduler = Cycle(optimizer, 1e-3, total_steps=args.steps // 2)
for step in range(args.steps):
    x, y = next(batches)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    scheduler.step()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets
from transformers import get_cosine_schedule_with_warmup as cosine
class Job:
    epochs = 10
    def __init__(self):
        self.net = nn.Linear(784, 10)
        self.loader = DataLoader(datasets.MNIST("data", train=True), batch_size=64, shuffle=True)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        self.schedule = cosine(self.opt, num_warmup_steps=100, num_training_steps=1000)
    def run(self):
        for epoch in range(self.epochs):
            for x, y in self.loader:
                loss = nn.functional.cross_entropy(self.net(x.flatten(1)), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                self.schedule.step()
Job().run()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, epochs=20, steps_per_epoch=len(loader))
for epoch in range(20):
    for x, y in loader:
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
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=1000)
done = 0
for epoch in range(2000):
    x, y = next(batches)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    done += 1
    if done == 1000:
        break
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the numbers."""
    for scheduler in schedulers(context):
        kind = kind_of(scheduler) or ""
        found = length(context, scheduler)
        if (
            found is None
            or kind in ("CosineAnnealingLR", "StepLR", "LinearLR", "PolynomialLR")
            or prepared(context, scheduler)
        ):
            continue
        name, _, size = found
        each = [p for p in paces(context, scheduler) if steps_plainly(p.event)]
        if len(each) != 1 or each[0].calls is None or not each[0].sure or not size.factor:
            continue
        ratio = each[0].calls.times(size, -1)
        if ratio.number is not None and ratio.number > (1.0 if ratio.exact else 1.05):
            yield _longer(context, scheduler, name, size, each[0], f"{ratio.number:.3g} times its length")
        elif kind == "OneCycleLR" and _epochs_alone(size, each[0]):
            yield _longer(context, scheduler, name, size, each[0], "as many times its length as an epoch has batches")


def _epochs_alone(size: Product, pace: Pace) -> bool:
    """The length of a one-cycle schedule is the number of epochs, while each batch steps it."""
    if not pace.per_batch or pace.epochs is None or size.number is None:
        return False
    return pace.epochs.times(size, -1).number == 1 and size.number > 1 and not pace.every


def _longer(context: Context, scheduler: Obj, name: str, size: Product, pace: Pace, times: str) -> Finding:
    raises = kind_of(scheduler) == "OneCycleLR"
    end = (
        f"step {size.factor + 1:.0f} raises ValueError"
        if raises and size.number
        else "the learning rate is 0 from then on"
    )
    return context.finding(
        RULE,
        scheduler,
        f"the schedule has {size} steps ({name}), but training steps it {times}: "
        + ("a step beyond its end raises ValueError" if raises and not size.number else end),
        severity="error" if raises else "warning",
        evidence=[
            Evidence(name, str(size), "calls of step()"),
            Evidence("calls of step() in the run", str(pace.calls), arithmetic=f"{pace.calls} > {size}"),
        ],
        fix=Fix(
            title="give the schedule the number of steps that training makes",
            instruction=f"set {name} to {pace.calls}",
            expected="the schedule ends with training",
        ),
        related=[(pace.event, "the scheduler steps here")],
    )
