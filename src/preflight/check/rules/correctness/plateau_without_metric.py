"""ReduceLROnPlateau steps without a metric.

## What it does
Looks for `step()` without an argument on a ReduceLROnPlateau scheduler.

## Why
The call raises `TypeError: step() missing 1 required positional argument: 'metrics'`, at the end of the first epoch.

## Fix
Pass what it is to watch: `scheduler.step(validation_loss)`.

## When to ignore
Never.

## References
- PyTorch, `torch.optim.lr_scheduler.ReduceLROnPlateau`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.schedules import TORCH, prepared
from preflight.check.rule import Rule
from preflight.source.values import Obj, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="plateau-without-metric",
    code="SCH015",
    severity="error",
    confidence="certain",
    needs=("scheduler",),
    tags=("schedule",),
)

_TRAIN = """
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
_HEAD = """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""

BAD = (
    f"""{_HEAD}
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "min")
for epoch in range(90):{_TRAIN}
    scheduler.step()
""",
    f"""{_HEAD}
import argparse
from torch.optim.lr_scheduler import ReduceLROnPlateau as Plateau
parser = argparse.ArgumentParser()
parser.add_argument("--patience", type=int, default=3)
args = parser.parse_args()
def advance(schedule):
    schedule.step()
plateau = Plateau(optimizer, patience=args.patience)
for epoch in range(90):{_TRAIN}
    advance(plateau)
""",
    f"""{_HEAD}
class Job:
    def __init__(self):
        self.schedules = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    def end(self):
        self.schedules.step()
job = Job()
for epoch in range(90):{_TRAIN}
    job.end()
""",
)

GOOD = (
    f"""{_HEAD}
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "min")
for epoch in range(90):{_TRAIN}
    scheduler.step(validate(model))
""",
    f"""{_HEAD}
if plateau:
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "min")
else:
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
for epoch in range(90):{_TRAIN}
    if plateau:
        scheduler.step(validate(model))
    else:
        scheduler.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find steps without an argument on a thing that can only be a plateau scheduler."""
    for event in context.trace.calls(".step"):
        if event.args or event.kwargs or event.receiver is None or event.context.shadow:
            continue
        options = [o for o in options_of(event.receiver) if isinstance(settle(o), Obj)]
        if not options or any(
            not isinstance(o, Obj) or o.name != TORCH + "ReduceLROnPlateau" or o.cls for o in options
        ):
            continue
        if getattr(event.result, "open_args", False) or prepared(context, options[0]):  # type: ignore[arg-type]
            continue
        yield context.finding(
            RULE,
            event,
            "ReduceLROnPlateau.step() is called without the metric that it watches: this raises TypeError",
            evidence=[Evidence("arguments given", 0, arithmetic="step(metrics) needs 1")],
            fix=Fix(
                title="pass the metric",
                instruction="scheduler.step(validation_loss)",
                expected="the rate is cut when the metric stops improving",
            ),
            related=[(options[0], "the scheduler")],
        )
