"""A decision of the epoch is taken on its last batch.

## What it does
Looks for the loss of a single batch where the value of an epoch is wanted:
given to ReduceLROnPlateau, or compared with the best so far, after the loop over the batches.

## Why
After the loop the variable `loss` still holds the loss of the last batch, often a small one.
The "best" model is then the one whose last batch was easiest, and the rate is cut by chance.

## Fix
Average over the epoch, or use the loss on validation data.

## When to ignore
When each epoch is one batch.

## References
- PyTorch, `torch.optim.lr_scheduler.ReduceLROnPlateau`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.counts import over_data
from preflight.check.queries.metrics import averaged_match, bare, batch_mean
from preflight.check.queries.schedules import TORCH
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event
from preflight.source.values import Obj, Unknown, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="decision-on-last-batch",
    code="MET003",
    severity="warning",
    confidence="likely",
    needs=("training_loop",),
    tags=("metric",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
for epoch in range(90):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    scheduler.step(loss)
""",
    """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
args = parser.parse_args()
net = nn.Linear(10, 2)
opt = torch.optim.Adam(net.parameters())
best = float("inf")
def train():
    for x, y in loader:
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
    return loss.item()
for epoch in range(args.epochs):
    last = train()
    if last < best:
        best = last
        torch.save(net.state_dict(), "best.pt")
""",
    """
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau as Plateau
class Job:
    def __init__(self):
        self.net = torch.nn.Linear(4, 2)
        self.criterion = torch.nn.CrossEntropyLoss()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.plateau = Plateau(self.opt)
    def epoch(self):
        for x, y in train_loader:
            self.opt.zero_grad()
            self.criterion(self.net(x), y).backward()
            self.opt.step()
        for x, y in test_loader:
            value = self.criterion(self.net(x), y)
        self.plateau.step(value.item())
job = Job()
for _ in range(10):
    job.epoch()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
best = 1e9
for epoch in range(90):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
        if loss.item() > 1e4:
            break
    scheduler.step(total / len(loader))
    if total < best:
        best = total
        torch.save(model.state_dict(), "best.pt")
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
for epoch in range(1000):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(data), target)
    loss.backward()
    optimizer.step()
    scheduler.step(loss)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find values of one batch that are used after its loop."""
    for event in context.trace.calls(".step"):
        scheduler = settle(event.receiver) if event.receiver is not None else None
        if isinstance(scheduler, Obj) and scheduler.name == TORCH + "ReduceLROnPlateau" and event.args:
            loss = _of_last_batch(context, event.args[0], event.context)
            if loss is not None:
                yield _finding(context, event, loss, "given to ReduceLROnPlateau")
    told: set[int] = set()
    for event in context.trace.calls("torch.save", ".state_dict"):
        for frame in event.context.frames():
            if frame.kind == "if" and frame.polarity is True and id(frame.node) not in told:
                found = _compared(context, frame)
                if found is not None:
                    told.add(id(frame.node))
                    yield _finding(context, event, found, "compared with the best so far")


def _compared(context: Context, frame: Frame) -> Obj | None:
    """The loss of one batch that a test compares with what earlier epochs left."""
    test = settle(frame.value) if frame.value is not None else None
    if (
        not isinstance(test, Obj)
        or test.name not in ("<", "<=", ">", ">=")
        or len(test.args) != 2
        or frame.parent is None
    ):
        return None
    for one, other in ((test.args[0], test.args[1]), (test.args[1], test.args[0])):
        if any(isinstance(o, Unknown) and o.reason.startswith("changes ") for o in options_of(other)):
            return _of_last_batch(context, one, frame.parent)
    return None


def _of_last_batch(context: Context, value: Value, place: Frame) -> Obj | None:
    """The loss or accuracy of one batch that a value is, where the place is behind the loop over the batches."""
    for option in options_of(value, limit=3):
        inner = bare(option)
        if isinstance(inner, Obj) and (batch_mean(context, inner) is not None or averaged_match(inner) is not None):
            loops = inner.context.loops() if inner.context is not None else []
            if loops and not place.within(loops[0]) and over_data(context, loops[0]):
                return inner
    return None


def _finding(context: Context, event: Event, loss: Obj, use: str) -> Finding:
    return context.finding(
        RULE,
        event,
        f"the value of the last batch is {use}, where that of the whole epoch is meant: chance decides",
        evidence=[
            Evidence("batches in the value", 1, arithmetic="the loop over the batches assigns it anew in each pass")
        ],
        fix=Fix(
            title="average over the epoch",
            instruction="add up loss.item() in the loop and divide by len(loader), or use the validation loss",
            expected="the decision depends on all batches",
        ),
        related=[(loss, "the value of one batch")],
    )
