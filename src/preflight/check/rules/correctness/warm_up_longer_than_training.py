"""The warm-up is longer than training.

## What it does
Compares the number of warm-up steps with the number of all steps of the schedule.

## Why
With 1000 warm-up steps in a run of 500 the rate only rises, to half its peak, and never falls.

## Fix
Give the warm-up 1 to 10 % of the steps.

## When to ignore
When only the beginning of a longer run is tried.

## References
- Transformers, `get_linear_schedule_with_warmup`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, Place
from preflight.check.rule import Rule
from preflight.check.schedules import TORCH, length, schedulers, warmup_of
from preflight.source.values import Known, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="warm-up-longer-than-training",
    code="SCH012",
    severity="warning",
    confidence="certain",
    layer="C",
    tags=("schedule",),
)

BAD = (
    """
import torch
from transformers import get_linear_schedule_with_warmup
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=1000, num_training_steps=500)
""",
    """
import argparse
from transformers import TrainingArguments as TA
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
args = parser.parse_args()
def arguments():
    return TA("out", max_steps=args.steps, warmup_steps=500)
arguments()
""",
    """
import torch
from dataclasses import dataclass
from diffusers.optimization import get_scheduler as schedule
@dataclass
class Config:
    warmup: int = 2000
    total: int = 1000
class Job:
    def __init__(self, config):
        self.opt = torch.optim.AdamW(model.parameters())
        self.schedule = schedule("cosine", self.opt, config.warmup, config.total)
Job(Config())
""",
)

GOOD = (
    """
import torch
from transformers import get_linear_schedule_with_warmup
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=50, num_training_steps=500)
""",
    """
from transformers import TrainingArguments
arguments = TrainingArguments("out", num_train_epochs=3, warmup_steps=500)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare both numbers."""
    for scheduler in schedulers(context):
        if scheduler.name.startswith(TORCH) or (scheduler.context is not None and scheduler.context.shadow):
            continue
        found = length(context, scheduler)
        if found is not None:
            yield from _judge(context, scheduler, warmup_of(scheduler), found[2].number)
    for event in context.trace.calls("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments"):
        total = event.kwargs.get("max_steps")
        worth = settle(total) if total is not None else None
        if isinstance(worth, Known) and isinstance(worth.value, int) and worth.value > 0 and not event.context.shadow:
            yield from _judge(context, event, event.kwargs.get("warmup_steps"), worth.value)


def _judge(context: Context, place: Place, given: Value | None, total: float | None) -> Iterator[Finding]:
    worth = settle(given) if given is not None else None
    if (
        not isinstance(worth, Known)
        or not isinstance(worth.value, (int, float))
        or total is None
        or worth.value < total
    ):
        return
    share = total / worth.value
    yield context.finding(
        RULE,
        place,
        f"the warm-up has {worth.value:g} steps and the whole schedule {total:g}: "
        f"the rate rises to {share:.0%} of its peak and never falls",
        evidence=[
            Evidence("warm-up", worth.value, "steps"),
            Evidence("schedule", total, "steps", arithmetic=f"{total:g} / {worth.value:g} = {share:.2f}"),
        ],
        fix=Fix(
            title="shorten the warm-up",
            instruction=f"use 1 to 10 % of {total:g} steps",
            expected="the rate reaches its peak and decays",
        ),
    )
