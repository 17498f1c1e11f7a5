"""A warm-up is asked for that the schedule does not have.

## What it does
Looks for warm-up steps given together with a schedule that has no warm-up: `constant`, or `reduce_lr_on_plateau`.

## Why
`get_scheduler("constant", num_warmup_steps=500)` ignores the 500 steps without a word.
Training begins at the full rate, which is what the warm-up was to avoid.

## Fix
Use `constant_with_warmup` (or linear, cosine), or drop the option.

## When to ignore
When the option is a default that other schedules use.

## References
- Transformers, `get_scheduler`: which schedules use num_warmup_steps
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.states import text_of
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Known, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="warm-up-without-effect",
    code="SCH006",
    severity="warning",
    confidence="certain",
    layer="C",
    tags=("schedule",),
)
_WITHOUT = ("constant", "reduce_lr_on_plateau", "piecewise_constant")

BAD = (
    """
import torch
from transformers import get_scheduler
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scheduler = get_scheduler("constant", optimizer=optimizer, num_warmup_steps=500, num_training_steps=10000)
""",
    """
from transformers import TrainingArguments as TA
def arguments():
    return TA("out", learning_rate=5e-5, lr_scheduler_type="constant", warmup_ratio=0.1)
arguments()
""",
    """
import argparse, torch
from diffusers.optimization import get_scheduler as schedule
parser = argparse.ArgumentParser()
parser.add_argument("--lr_scheduler", default="constant")
parser.add_argument("--warmup", type=int, default=500)
args = parser.parse_args()
class Job:
    def __init__(self):
        self.opt = torch.optim.AdamW(model.parameters())
        self.schedule = schedule(args.lr_scheduler, self.opt, num_warmup_steps=args.warmup)
Job()
""",
)

GOOD = (
    """
import torch
from transformers import get_scheduler
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
a = get_scheduler("constant_with_warmup", optimizer=optimizer, num_warmup_steps=500)
b = get_scheduler("constant", optimizer=optimizer, num_warmup_steps=0)
c = get_scheduler("cosine", optimizer=optimizer, num_warmup_steps=500, num_training_steps=10000)
""",
    """
from transformers import TrainingArguments
arguments = TrainingArguments("out", lr_scheduler_type="linear", warmup_ratio=0.1)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find warm-ups of schedules without one."""
    for event in context.trace.calls("transformers.get_scheduler", "diffusers.optimization.get_scheduler"):
        name = text_of(event.argument(0, "name"))
        yield from _judge(context, event, name, "num_warmup_steps", event.argument(2, "num_warmup_steps"))
    for event in context.trace.calls("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments"):
        name = text_of(event.kwargs.get("lr_scheduler_type"))
        for option in ("warmup_steps", "warmup_ratio"):
            yield from _judge(context, event, name, option, event.kwargs.get(option))


def _judge(context: Context, event: Event, name: str | None, option: str, given: Value | None) -> Iterator[Finding]:
    worth = settle(given) if given is not None else None
    if name not in _WITHOUT or event.context.shadow or not isinstance(worth, Known):
        return
    if not isinstance(worth.value, (int, float)) or worth.value <= 0:
        return
    # Both values from options with defaults: a person chooses another schedule, and the warm-up counts.
    mild = worth.soft
    yield context.finding(
        RULE,
        event,
        f'{option} = {worth.value:g} has no effect: the schedule "{name}" has no warm-up',
        severity="info" if mild else None,
        evidence=[Evidence("schedule", name), Evidence(option, worth.value)],
        fix=Fix(
            title="choose a schedule with warm-up",
            instruction=f'use "constant_with_warmup", or drop {option}',
            expected="the rate rises from 0 as asked for",
        ),
    )
