"""A schedule's function returns a learning rate, not a factor.

## What it does
Looks for LambdaLR functions whose result contains the rate that the optimizer was given.

## Why
LambdaLR multiplies the optimizer's rate by what the function returns.
With `lr=1e-3` and a function that returns `1e-3 * 0.95 ** epoch` the rate is 1e-6: training stands still.

## Fix
Return the factor alone: `lambda epoch: 0.95 ** epoch`.

## When to ignore
When the optimizer was given a rate of 1 for this purpose.

## References
- PyTorch, `torch.optim.lr_scheduler.LambdaLR`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.sampling import sample
from preflight.check.queries.schedules import optimizer_of, schedulers
from preflight.check.rule import Rule
from preflight.source.values import Known, Obj, Seq, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="schedule-factor-is-rate",
    code="SCH013",
    severity="warning",
    confidence="likely",
    needs=("scheduler",),
    tags=("schedule",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
lr = 1e-3
optimizer = torch.optim.Adam(model.parameters(), lr=lr)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda epoch: lr * 0.95 ** epoch)
""",
    """
import argparse
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR as Scale
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.01)
args = parser.parse_args()
net = nn.Linear(10, 2)
opt = SGD(net.parameters(), lr=args.lr)
def rate(epoch):
    if epoch < 30:
        return args.lr
    return args.lr * 0.1
schedule = Scale(opt, rate)
""",
    """
import torch
class Job:
    base = 5e-4
    def __init__(self):
        self.net = torch.nn.Linear(4, 2)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=self.base)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.opt, self.rate)
    def rate(self, step):
        return self.base / (1 + step)
Job()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
lr = 1e-3
optimizer = torch.optim.Adam(model.parameters(), lr=lr)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda epoch: 0.95 ** epoch)
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=1.0)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda epoch: 1e-3 * 0.95 ** epoch)
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
lr, low = 1e-3, 1e-5
optimizer = torch.optim.Adam(model.parameters(), lr=lr)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda step: max(low / lr, 1 - step / 1000))
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda step: min(1.0, (step + 1) / 1000))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Sample the functions: the largest factor is the rate itself."""
    for scheduler in schedulers(context):
        optimizer = optimizer_of(context, scheduler)
        if not scheduler.name.endswith(".LambdaLR") or optimizer is None:
            continue
        given = optimizer.argument(1, "lr")
        rate = settle(given) if given is not None else None
        if not isinstance(rate, Known) or not isinstance(rate.value, (int, float)) or not 0 < rate.value < 0.2:
            continue
        found = _factors(context, scheduler)
        if found is None:
            continue
        # A factor never above the rate, and equal to it at its largest, is the rate. A warm-up goes on to 1.
        top = max(found)
        if top > 0 and abs(top - rate.value) <= 1e-6 * rate.value:
            yield _finding(context, scheduler, rate.value, found)


POINTS = (0, 1, 2, 5, 10, 50, 100, 500, 1000, 10_000)


def _factors(context: Context, scheduler: Obj) -> list[float] | None:
    given = scheduler.argument(1, "lr_lambda")
    base: Value | None = settle(given) if given is not None else None
    if isinstance(base, Seq):
        base = base.items[0] if base.items else None
    return sample(context, base, [[Known(p)] for p in POINTS]) if base is not None else None


def _finding(context: Context, scheduler: Obj, rate: float, found: list[float]) -> Finding:
    top = max(found)
    return context.finding(
        RULE,
        scheduler,
        f"the function returns a learning rate ({top:g}), but LambdaLR multiplies the optimizer's rate by it: "
        f"the rate is {rate * top:.3g}",
        evidence=[
            Evidence("rate of the optimizer", rate),
            Evidence(
                "largest result of the function",
                top,
                source="measured",
                arithmetic=f"{rate:g} x {top:g} = {rate * top:.3g}",
            ),
        ],
        fix=Fix(
            title="return the factor alone",
            instruction="divide the function's result by the base rate, or give the optimizer lr=1.0",
            expected=f"the rate begins at {rate:g}",
        ),
    )
