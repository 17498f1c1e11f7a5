"""A scheduler steps ahead of the optimizer under a test that cannot be decided.

## What it does
Looks for a scheduler step in front of the first optimizer step that a test may or may not skip in the first pass.

## Why
Where the test holds in the first pass, the first learning rate of the schedule is never used.
Where it does not, all is well; only a run tells.

## Fix
Call `scheduler.step()` after `optimizer.step()`: then the test does not matter.

## When to ignore
When the first pass is known not to come there.

## References
- PyTorch, `torch.optim`, "How to adjust learning rate"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.parameters import stepped
from preflight.check.queries.schedules import first_pass, kind_of, optimizer_of, schedulers, steps_of, steps_plainly
from preflight.check.rule import Rule
from preflight.source.training import guarded_more, same_guards
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="scheduler-order-unclear",
    code="SCH005",
    severity="info",
    confidence="likely",
    needs=("scheduler", "training_loop"),
    tags=("schedule",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
for epoch in range(90):
    if ready():
        scheduler.step()
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
""",
    """
import argparse
from torch import nn
from torch.optim import SGD, lr_scheduler as lrs
parser = argparse.ArgumentParser()
parser.add_argument("--gamma", type=float, default=0.9)
args = parser.parse_args()
net = nn.Linear(10, 2)
opt = SGD(net.parameters(), lr=0.1)
decay = lrs.ExponentialLR(opt, args.gamma)
def train(state):
    for x, y in loader:
        if state.warm:
            decay.step()
        opt.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        opt.step()
for epoch in range(3):
    train(read_state())
""",
    """
import torch
from torch import nn
class Trainer:
    def __init__(self):
        self.net = nn.Linear(10, 2)
        self.opt = torch.optim.Adam(self.net.parameters())
        self.schedule = torch.optim.lr_scheduler.MultiStepLR(self.opt, [10, 20])
    def epoch(self, number):
        if number > self.first():
            self.schedule.step()
        for x, y in loader:
            self.opt.zero_grad()
            nn.functional.mse_loss(self.net(x), y).backward()
            self.opt.step()
    def first(self):
        return int(open("first.txt").read())
trainer = Trainer()
for number in range(30):
    trainer.epoch(number)
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
for epoch in range(90):
    if epoch > 0:
        scheduler.step()
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
for epoch in range(90):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    if ready():
        scheduler.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find guarded steps in front of the first optimizer step."""
    for scheduler in schedulers(context):
        optimizer = optimizer_of(context, scheduler)
        if optimizer is None or kind_of(scheduler) == "ReduceLROnPlateau":
            continue
        steps = [s for t in context.reading.loops for s in t.steps if stepped(context.reading, s) in (optimizer, None)]
        events = [e for e in steps_of(context, scheduler) if steps_plainly(e) and e.context.loops()]
        if not steps or not events:
            continue
        first = min(events, key=lambda e: e.number)
        frame = first.context.loops()[0]
        after = [s for s in steps if s.number > first.number and s.context.within(frame) and same_guards(first, s)]
        if any(s.number < first.number for s in steps) or not after:
            continue
        unclear = [g for g in guarded_more(first, frame) if g.taken is not True and first_pass(g.value) is None]
        if not unclear or unclear[0].node is None or unclear[0].script is None:
            continue
        test = getattr(unclear[0].node, "test", unclear[0].node)
        text = unclear[0].script.segment(test)[:60]
        yield context.finding(
            RULE,
            first,
            f"{kind_of(scheduler)}.step() comes before the optimizer's first step if `{text}` holds at first: "
            "then the first learning rate is never used",
            evidence=[Evidence("test around the step", text)],
            fix=Fix(
                title="call scheduler.step() after optimizer.step()",
                instruction="move the call behind the optimizer's step",
                expected="the schedule begins with its first value in any case",
            ),
            related=[(after[0], "the optimizer steps here")],
        )
