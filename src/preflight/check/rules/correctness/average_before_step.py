"""The moving average of the weights is updated before the optimizer steps.

## What it does
Looks for an update of an averaged model that comes before the first optimizer step of the loop's pass.

## Why
The average then always holds the weights of one step before, and its first update takes in the random initial weights.
With accumulation or a short decay the difference shows in the evaluated model.

## Fix
Update the average after `optimizer.step()`.

## When to ignore
When the average is meant to lag.

## References
- PyTorch, `torch.optim.swa_utils.AveragedModel`; Tarvainen and Valpola, "Mean teachers", 2017
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.steps import each_pass
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import same_guards
from preflight.source.values import Obj, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="average-before-step",
    code="EMA001",
    severity="warning",
    confidence="likely",
    needs=("training_loop",),
    tags=("average",),
)
_AVERAGES = {
    "torch.optim.swa_utils.AveragedModel": ".update_parameters",
    "timm.utils.ModelEma": ".update",
    "timm.utils.ModelEmaV2": ".update",
    "timm.utils.ModelEmaV3": ".update",
    "torch_ema.ExponentialMovingAverage": ".update",
    "ema_pytorch.EMA": ".update",
    "diffusers.training_utils.EMAModel": ".step",
}

_HEAD = """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""

BAD = (
    f"""{_HEAD}
ema = torch.optim.swa_utils.AveragedModel(model)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    ema.update_parameters(model)
    optimizer.step()
""",
    f"""{_HEAD}
import argparse
from timm.utils import ModelEmaV2 as Average
parser = argparse.ArgumentParser()
parser.add_argument("--decay", type=float, default=0.999)
average = Average(model, decay=parser.parse_args().decay)
def step(x, y):
    loss = nn.functional.cross_entropy(model(x), y)
    average.update(model)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for x, y in loader:
    step(x, y)
""",
    f"""{_HEAD}
from torch_ema import ExponentialMovingAverage
class Job:
    def __init__(self):
        self.ema = ExponentialMovingAverage(model.parameters(), decay=0.99)
        self.scaler = torch.amp.GradScaler()
    def run(self):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            self.scaler.scale(loss).backward()
            self.ema.update()
            self.scaler.step(optimizer)
            self.scaler.update()
            optimizer.zero_grad()
Job().run()
""",
)

GOOD = (
    f"""{_HEAD}
ema = torch.optim.swa_utils.AveragedModel(model)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    ema.update_parameters(model)
""",
    f"""{_HEAD}
g, d = nn.Linear(3, 3), nn.Linear(3, 1)
opt_d, opt_g = torch.optim.Adam(d.parameters()), torch.optim.Adam(g.parameters())
ema = torch.optim.swa_utils.AveragedModel(g)
for z in noise:
    opt_g.zero_grad()
    d(g(z)).mean().backward()
    opt_g.step()
    ema.update_parameters(g)
    opt_d.zero_grad()
    d(g(z)).mean().backward()
    opt_d.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the order of averages and steps."""
    for loop in context.reading.loops:
        for update in (e for e in loop.events if e.name in (".update", ".update_parameters", ".step")):
            if not _is_average(update) or not each_pass(update.context, loop.frame):
                continue
            steps = [s for s in loop.steps if s is not update and same_guards(update, s)]
            if steps and all(s.number > update.number for s in steps):
                yield _finding(context, update, steps[0])
                break


def _is_average(event: Event) -> bool:
    return any(
        isinstance(o, Obj) and o.cls is None and _AVERAGES.get(o.name) == event.name for o in options_of(event.receiver)
    )


def _finding(context: Context, update: Event, step: Event) -> Finding:
    return context.finding(
        RULE,
        update,
        "the averaged model is updated before the optimizer steps: it always holds the weights of the step before",
        evidence=[Evidence("optimizer steps before the update", 0, arithmetic="average(n) uses weights(n - 1)")],
        fix=Fix(
            title="update the average after optimizer.step()",
            instruction="move the call behind the optimizer's step",
            expected="the average takes in the newest weights",
        ),
        related=[(step, "the optimizer steps here")],
    )
