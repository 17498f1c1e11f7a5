"""The schedule begins anew after a resume.

## What it does
Looks at scripts that go on from a checkpoint at a later epoch, with a scheduler whose state nothing restores.

## Why
The loop begins at epoch 60, the schedule at step 0: the rate jumps back to its first value, warm-up included.
What had settled is shaken up, and the decay comes sixty epochs late.

## Fix
Save `scheduler.state_dict()`, and call `scheduler.load_state_dict()` on resume (or pass last_epoch).

## When to ignore
When the schedule is set from the epoch number in each epoch.

## References
- PyTorch, "Saving and loading a general checkpoint for inference and/or resuming training"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.schedules import kind_of, schedulers, steps_of, steps_plainly
from preflight.check.queries.states import restored, resume
from preflight.check.rule import Rule
from preflight.source.values import Known, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="scheduler-not-advanced-on-resume",
    code="SCH010",
    severity="warning",
    confidence="likely",
    needs=("scheduler", "training_loop", "complete"),
    tags=("schedule", "checkpoint"),
)

_HEAD = """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
start = 0
"""
_LOAD = """
if resume:
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    start = checkpoint["epoch"] + 1
"""
_TRAIN = """
for epoch in range(start, 90):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt")
"""

BAD = (
    f"""{_HEAD}
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 90){_LOAD}{_TRAIN}""",
    f"""{_HEAD}
import argparse
from torch.optim.lr_scheduler import StepLR as Steps
parser = argparse.ArgumentParser()
parser.add_argument("--resume", default="")
args = parser.parse_args()
resume = args.resume
def schedule(opt):
    return Steps(opt, 30)
scheduler = schedule(optimizer){_LOAD}{_TRAIN}""",
    f"""{_HEAD}
from transformers import get_cosine_schedule_with_warmup
scheduler = get_cosine_schedule_with_warmup(optimizer, 5, 90)
def restore():
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return checkpoint["epoch"] + 1
if resume:
    start = restore(){_TRAIN}""",
)

GOOD = (
    f"""{_HEAD}
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 90){_LOAD}
    scheduler.load_state_dict(checkpoint["scheduler"]){_TRAIN}""",
    f"""{_HEAD}{_LOAD}
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 90, last_epoch=start - 1){_TRAIN}""",
    f"""{_HEAD}
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 90){_LOAD}
    for _ in range(start):
        scheduler.step(){_TRAIN}""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find schedulers that a resume leaves at their beginning."""
    found = resume(context)
    if found.start is None or restored(context, "model") is False or restored(context, "scheduler") is not False:
        return
    if any(store.name in ("last_epoch", "_step_count") for store in context.trace.stores):
        return
    for scheduler in schedulers(context):
        steps = steps_of(context, scheduler)
        inside = [s for s in steps if s.context.within(found.start) and steps_plainly(s)]
        if not inside or len(inside) != len(steps) or kind_of(scheduler) == "ReduceLROnPlateau":
            continue
        last = scheduler.kwargs.get("last_epoch")
        worth = settle(last) if last is not None else None
        if scheduler.open_args or (worth is not None and not (isinstance(worth, Known) and worth.value == -1)):
            continue
        if scheduler.context is not None and scheduler.context.shadow:
            continue
        yield context.finding(
            RULE,
            scheduler,
            f"training goes on at a later epoch, but {kind_of(scheduler)} begins anew, at its first learning rate",
            evidence=[Evidence("scheduler.load_state_dict() calls", 0), Evidence("last_epoch", "not given")],
            fix=Fix(
                title="save and restore the state of the scheduler",
                instruction="save scheduler.state_dict(), and call scheduler.load_state_dict() on resume",
                expected="the schedule goes on where it stopped",
            ),
            related=[(found.loads[0], "the checkpoint is read here")],
        )
        return
