"""Warm-up is longer than the run.

## What it does
Compares `warmup_steps` with `max_steps` in TrainingArguments and in the schedule factories of transformers and diffusers.

## Why
The learning rate only rises: it never reaches its peak, and the decay that was planned never happens.

## Fix
Make the warm-up a few per cent of the run.

## When to ignore
In smoke tests that run a handful of steps.

## References
- Hugging Face documentation, transformers.TrainingArguments, warmup_steps
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, Place
from preflight.check.queries.trainer_settings import argument_objects, explicit
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="warmup-longer-than-run",
    code="TRN004",
    severity="warning",
    confidence="certain",
    layer="C",
    tags=("transformers", "schedule"),
)

BAD = (
    """
from transformers import TrainingArguments
args = TrainingArguments("out", max_steps=1000, warmup_steps=2000)
""",
    """
import argparse
import transformers as hf
def schedule(optimizer, args):
    return hf.get_cosine_schedule_with_warmup(optimizer, args.warmup, args.steps)
p = argparse.ArgumentParser()
p.add_argument("--warmup", type=int, default=500)
p.add_argument("--steps", type=int, default=100)
schedule(optimizer, p.parse_args())
""",
    """
from dataclasses import dataclass
from transformers import get_linear_schedule_with_warmup as schedule
@dataclass
class Config:
    steps: int = 300
    warmup: int = 300
config = Config()
scheduler = schedule(optimizer, num_warmup_steps=config.warmup, num_training_steps=config.steps)
""",
)

GOOD = (
    """
from transformers import TrainingArguments, get_linear_schedule_with_warmup
a = TrainingArguments("out", max_steps=1000, warmup_steps=100)
b = TrainingArguments("out", warmup_steps=2000)
c = TrainingArguments("out", max_steps=-1, warmup_steps=2000)
s = get_linear_schedule_with_warmup(optimizer, 100, len(loader) * 3)
""",
    """
from transformers import get_constant_schedule_with_warmup
s = get_constant_schedule_with_warmup(optimizer, num_warmup_steps=500)
""",
)

_SCHEDULES = (
    "get_linear_schedule_with_warmup",
    "get_cosine_schedule_with_warmup",
    "get_cosine_with_hard_restarts_schedule_with_warmup",
    "get_polynomial_decay_schedule_with_warmup",
)


def check(context: Context) -> Iterator[Finding]:
    """Find warm-ups that do not end before the run does."""
    for made in argument_objects(context):
        steps, warmup = explicit(made, "max_steps"), explicit(made, "warmup_steps")
        if steps is not None and warmup is not None:
            yield from _compare(context, made, context.value(warmup), context.value(steps))
    for module in ("transformers", "diffusers.optimization"):
        for event in context.trace.calls(*(f"{module}.{n}" for n in _SCHEDULES)):
            if not event.context.shadow:
                warmup, steps = event.argument(1, "num_warmup_steps"), event.argument(2, "num_training_steps")
                yield from _compare(context, event, context.value(warmup), context.value(steps))


def _compare(context: Context, place: Place, warmup: object, steps: object) -> Iterator[Finding]:
    if not isinstance(warmup, (int, float)) or not isinstance(steps, (int, float)) or steps <= 0 or warmup < steps:
        return
    yield context.finding(
        RULE,
        place,
        f"the warm-up takes {warmup} steps and the run {steps}: the learning rate never reaches its peak",
        evidence=[
            Evidence("warm-up", warmup, "steps"),
            Evidence(
                "run",
                steps,
                "steps",
                arithmetic=f"the last step uses {steps} / {warmup} = {steps / warmup:.0%} of the learning rate",
            ),
        ],
        fix=Fix(
            title="shorten the warm-up",
            instruction=f"use a few per cent of the run, such as {max(1, int(steps * 0.05))} steps",
            expected="the learning rate reaches its peak and decays",
        ),
    )
