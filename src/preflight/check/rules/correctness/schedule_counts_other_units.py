"""A schedule's length is counted in other units than its steps.

## What it does
Compares the length of a scheduler (T_max, total_steps, num_training_steps, step_size) with the calls of step().
It speaks when one counts epochs and the other batches, or one counts batches and the other accumulated steps.

## Why
A cosine of 10 epochs that steps per batch reaches its end after 10 batches, and rises and falls for the whole run.
A one-cycle schedule of 10 x 1000 batches that steps per epoch ends in its first thousandth, still in warm-up.
Nothing fails; the model is only worse.

## Fix
Step the scheduler where its length is counted: per batch for a length of batches, per epoch for one of epochs.

## When to ignore
When the rate is meant to cycle many times within one epoch.

## References
- PyTorch, `torch.optim.lr_scheduler`: T_max, total_steps and step_size count calls of step()
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.counts import Product, passes
from preflight.check.queries.schedules import (
    Pace,
    divided_by,
    kind_of,
    length,
    optimizer_of,
    paces,
    prepared,
    schedulers,
    steps_plainly,
)
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="schedule-counts-other-units",
    code="SCH001",
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
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30)
for epoch in range(30):
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
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR as Cycle
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
args = parser.parse_args()
model = nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=32, shuffle=True)
optimizer = AdamW(model.parameters(), lr=1e-3)
scheduler = Cycle(optimizer, max_lr=1e-3, total_steps=args.epochs * len(loader))
def train_one_epoch():
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
for epoch in range(args.epochs):
    train_one_epoch()
    scheduler.step()
""",
    """
import torch
from dataclasses import dataclass
from torch import nn
from torch.utils.data import DataLoader
from transformers import get_linear_schedule_with_warmup
@dataclass
class Config:
    epochs: int = 3
    accumulate: int = 8
class Trainer:
    def __init__(self, config):
        self.config = config
        self.model = nn.Linear(10, 2)
        self.loader = DataLoader(dataset, batch_size=4, shuffle=True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-5)
        total = len(self.loader) * config.epochs
        self.schedule = get_linear_schedule_with_warmup(self.optimizer, 0, total)
    def fit(self):
        for epoch in range(self.config.epochs):
            for step, (x, y) in enumerate(self.loader):
                loss = nn.functional.cross_entropy(self.model(x), y) / self.config.accumulate
                loss.backward()
                if (step + 1) % self.config.accumulate == 0:
                    self.optimizer.step()
                    self.schedule.step()
                    self.optimizer.zero_grad()
Trainer(Config()).fit()
""",
    """
import torch
from torch import nn
from torch.optim import lr_scheduler
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
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
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
loader = DataLoader(datasets.MNIST("data", train=True, transform=transforms.ToTensor()), batch_size=64, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20 * len(loader))
for epoch in range(20):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
epochs, accumulate = 30, 4
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * len(loader) // accumulate)
for epoch in range(epochs):
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y) / accumulate
        loss.backward()
        if (i + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
for epoch in range(100):
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
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 10)
for epoch in range(10):
    for i, (x, y) in enumerate(train_loader):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step(epoch + i / len(train_loader))
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=500)
for epoch in range(10):
    for i, (x, y) in enumerate(train_loader):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warm.step()
""",
    """
import argparse, torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--every", type=int, default=500)
p.add_argument("--epochs", type=int, default=20)
args = p.parse_args()
model = nn.Linear(10, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
step = 0
for epoch in range(args.epochs):
    for x, y in train_loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % args.every == 0:
            scheduler.step()
""",
)


_MANY_BATCHES = 10
"""With fewer batches in an epoch a length in batches is little different from one in epochs."""


def check(context: Context) -> Iterator[Finding]:
    """Compare the units of length and steps."""
    for scheduler in schedulers(context):
        found = length(context, scheduler)
        each = paces(context, scheduler)
        if found is None or not each or len({id(p.event.context.loops()[0]) for p in each if p.loops}) != 1:
            continue
        name, _, size = found
        for pace in each[:1]:
            if pace.undecided or not steps_plainly(pace.event):
                continue
            finding = _per_batch(context, scheduler, name, size, pace) or _per_epoch(
                context, scheduler, name, size, pace
            )
            finding = finding or _accumulated(context, scheduler, name, size, pace)
            if finding is not None:
                yield finding


def _per_batch(context: Context, scheduler: Obj, name: str, size: Product, pace: Pace) -> Finding | None:
    """The length is a number of epochs, the steps are batches."""
    if not pace.per_batch or pace.epochs is None or kind_of(scheduler) in ("OneCycleLR", "LinearLR"):
        return None  # one-cycle raises an error: SCH003; a linear warm-up may be as short as it likes
    if pace.every and not _with_optimizer(context, scheduler, pace):
        return None  # once in so many batches, which may be an epoch
    ratio = pace.epochs.times(size, -1)
    repeats = kind_of(scheduler) == "StepLR"
    if (
        ratio.number is None
        or ratio.number < 1
        or (ratio.number != 1 and not repeats)
        or (size.number is None and size.batches)
    ):
        return None
    if repeats and (pace.epochs.number or 0) < 2:
        return None
    what = "the number of epochs" if ratio.number == 1 else f"counted in epochs ({pace.epochs} in all)"
    calls = str(pace.calls) if pace.calls is not None else f"{pace.epochs} x batches per epoch"
    return context.finding(
        RULE,
        scheduler,
        f"{name} is {size}, {what}, but step() is called for every batch: the schedule is over after {size} batches",
        confidence="likely" if ratio.number == 1 else "possible",
        evidence=[
            Evidence(name, str(size), "calls of step()"),
            Evidence("calls of step() in the run", calls, arithmetic=f"{calls} / {size}"),
        ],
        fix=Fix(
            title=f"make {name} a number of batches, or step once per epoch",
            instruction=f"multiply {name} by len(train_loader), or move step() out of the loop over batches",
            expected="the schedule lasts as long as training",
        ),
        related=[(pace.event, "the scheduler steps here, once per batch")],
    )


def _with_optimizer(context: Context, scheduler: Obj, pace: Pace) -> bool:
    """Whether the optimizer steps under the tests that the schedule steps under: they accumulate."""
    optimizer = optimizer_of(context, scheduler)
    mine = {id(frame.node) for frame in pace.event.context.frames() if frame.kind == "if"}
    return optimizer is not None and any(
        mine <= {id(frame.node) for frame in step.context.frames() if frame.kind == "if"}
        for step in context.trace.on(optimizer, "step")
    )


def _per_epoch(context: Context, scheduler: Obj, name: str, size: Product, pace: Pace) -> Finding | None:
    """The length is a number of batches, the steps are epochs."""
    if not pace.per_epoch:
        return None
    if not any(size.powers.get(key, 0) == 1 for key in size.batches) and not _batches_in_number(context, size, pace):
        return None
    epochs = str(pace.epochs) if pace.epochs is not None else "one per epoch"
    return context.finding(
        RULE,
        scheduler,
        f"{name} counts batches ({size}), but step() is called per epoch: training ends before the schedule has begun",
        evidence=[
            Evidence(name, str(size), "calls of step()"),
            Evidence("calls of step() in the run", epochs, arithmetic=f"{epochs} / ({size})"),
        ],
        fix=Fix(
            title="step the scheduler after every optimizer step",
            instruction=f"move step() into the loop over batches, or give {name} in epochs",
            expected="the schedule reaches its end",
        ),
        related=[(pace.event, "the scheduler steps here, once per epoch")],
    )


def _batches_in_number(context: Context, size: Product, pace: Pace) -> bool:
    """Whether a length that is a plain number is that of all batches of the run: the loader's length is known."""
    training = next((loop for loop in context.reading.loops if pace.loops[0] in loop.outer), None)
    batches = passes(context, training.frame) if training is not None else None
    if pace.epochs is None or batches is None or (batches.number or 0) < _MANY_BATCHES:
        return False
    return size.times(pace.epochs.times(batches), -1).number == 1


def _given(context: Context, scheduler: Obj) -> Value | None:
    """The length as given."""
    found = length(context, scheduler)
    return found[1] if found is not None else None


def _accumulated(context: Context, scheduler: Obj, name: str, size: Product, pace: Pace) -> Finding | None:
    """The length counts batches, the steps are accumulated ones."""
    if not pace.every or not pace.per_batch or pace.epochs is None or prepared(context, scheduler):
        return None
    per_batch = pace.epochs
    for frame in pace.loops[:1]:
        inner = passes(context, frame)
        if inner is None:
            return None
        per_batch = per_batch.times(inner)
    if size.times(per_batch, -1).number != 1:
        return None
    if divided_by(_given(context, scheduler), pace.every[0]):
        return None
    every = context.value(pace.every[0])
    harmless = every == 1
    return context.finding(
        RULE,
        scheduler,
        f"{name} counts every batch ({size}), but step() is called once per accumulated step"
        + (
            ": right only while the accumulation is 1"
            if harmless
            else f": the schedule ends at 1/{every or 'k'} of its length"
        ),
        severity="info" if harmless else "warning",
        evidence=[
            Evidence(name, str(size), "calls of step()"),
            Evidence("calls of step() in the run", str(pace.calls), arithmetic=f"{per_batch} / {every or 'k'}"),
        ],
        fix=Fix(
            title=f"divide {name} by the number of accumulated batches",
            instruction="count optimizer steps: len(train_loader) // accumulation x epochs",
            expected="the rate decays to its end",
        ),
        related=[(pace.event, "the scheduler steps here")],
    )
