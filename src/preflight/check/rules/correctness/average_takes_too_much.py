"""The shares of an average are swapped: it forgets what it holds.

## What it does
Reads the shares of an update of averaged weights, `average = keep * average + take * model`, where both are known, and reports a share of less than 0.2 that stays.

## Why
An average with a decay of 0.999 holds about 1000 steps.
With the shares swapped it holds 0.1 % of itself: it is the model of this step, and the target network moves as fast as the one that chases it.

## Fix
Keep the large share of the average: `t.mul_(decay).add_(p, alpha=1 - decay)`, or `tau * p + (1 - tau) * t` with a small tau.

## When to ignore
When the target is meant to follow the model almost at once.

## References
- Lillicrap et al., "Continuous control with deep reinforcement learning", 2016: tau = 0.001
- Tarvainen and Valpola, "Mean teachers are better role models", 2017
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.averages import averages
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="average-takes-too-much",
    code="EMA003",
    severity="warning",
    confidence="likely",
    layer="D",
    tags=("average",),
)

_HEAD = """
import copy, torch
from torch import nn
model = nn.Linear(10, 2)
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step(x, y):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""

BAD = (
    f"""{_HEAD}
decay = 0.999
for x, y in loader:
    step(x, y)
    with torch.no_grad():
        for p, a in zip(model.parameters(), average.parameters()):
            a.mul_(1 - decay).add_(p, alpha=decay)
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--tau", type=float, default=0.005)
args = parser.parse_args()
def soft_update(source, target):
    for s, t in zip(source.parameters(), target.parameters()):
        t.data.copy_(args.tau * t.data + (1.0 - args.tau) * s.data)
for x, y in loader:
    step(x, y)
    soft_update(model, average)
""",
    f"""{_HEAD}
class Mean:
    momentum = 0.99
    @torch.no_grad()
    def update(self):
        for old, new in zip(average.parameters(), model.parameters()):
            old.data = old.data * (1 - self.momentum) + new.data * self.momentum
mean = Mean()
for x, y in loader:
    step(x, y)
    mean.update()
""",
    f"""{_HEAD}
params = list(model.parameters())
averages = copy.deepcopy(params)
for x, y in loader:
    step(x, y)
    for a, p in zip(averages, params):
        a.detach().mul_(0.001).add_(p, alpha=0.999)
""",
)

GOOD = (
    f"""{_HEAD}
decay = 0.999
for x, y in loader:
    step(x, y)
    with torch.no_grad():
        for p, a in zip(model.parameters(), average.parameters()):
            a.mul_(decay).add_(p, alpha=1 - decay)
            a.lerp_(p, 1 - decay)
""",
    f"""{_HEAD}
def update(tau):
    for s, t in zip(model.parameters(), average.parameters()):
        t.data.copy_(tau * s.data + (1.0 - tau) * t.data)
update(1.0)
for x, y in loader:
    step(x, y)
    update(0.01)
""",
)
_SMALL = 0.2


def check(context: Context) -> Iterator[Finding]:
    """Look at the shares of each update."""
    told: set[int] = set()
    for found in averages(context):
        if found.source is found.average or not 0 < found.keep < _SMALL or id(found.place.node) in told:
            continue
        told.add(id(found.place.node))
        yield context.finding(
            RULE,
            found.place,
            f"the average keeps {found.keep:.3g} of itself and takes {found.take:.3g} of the model: it is the model of this step",
            evidence=[
                Evidence("share that stays", found.keep),
                Evidence("steps that it averages over", round(1 / found.take, 3), arithmetic=f"1 / {found.take:.3g}"),
            ],
            fix=Fix(
                title="swap the shares",
                safe=False,
                instruction="multiply the average by the large share and the model by the small one",
                expected="the average changes slowly",
            ),
        )
