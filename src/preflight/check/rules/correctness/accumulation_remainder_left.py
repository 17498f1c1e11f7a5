"""The last batches of an epoch are accumulated and not used.

## What it does
Looks at steps that are taken where the count of batches is a multiple of k, in a loop inside a loop of epochs, with no step for what is left when an epoch ends.

## Why
With 103 batches and k = 4, the gradients of the last 3 are dropped when the next epoch clears gradients, and otherwise end up in the first step of the next epoch, which is then 7 batches large.
After the last epoch they are lost in any case.

## Fix
Step on the last batch too: `if (i + 1) % k == 0 or i + 1 == len(loader)`, or count steps over all epochs.

## When to ignore
When the number of batches is a multiple of k, or an epoch is long: 3 batches of 10,000 do not matter.

## References
- PyTorch documentation, "Automatic Mixed Precision examples", gradient accumulation
- Accelerate documentation, "Performing gradient accumulation": the last batch of an epoch steps
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.updates import Accumulation, Update, accumulation, managed, modulo, updates
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Known, Obj, Unknown, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="accumulation-remainder-left",
    code="ACC005",
    severity="info",
    confidence="likely",
    needs=("training_loop", "optimizer"),
    layer="D",
    tags=("accumulation",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(data):
        (nn.functional.cross_entropy(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
    """
import argparse
from torch.optim import Adam as A
import torch.nn as nn
p = argparse.ArgumentParser()
p.add_argument("--every", type=int, default=8)
args = p.parse_args()
class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 4)
        self.opt = A(self.net.parameters())
    def epoch(self):
        for step, x in enumerate(loader, start=1):
            (self.net(x).mean() / args.every).backward()
            if not step % args.every:
                self.opt.step()
                self.opt.zero_grad()
trainer = Trainer()
for epoch in range(3):
    trainer.epoch()
""",
    """
import torch
net = torch.nn.Linear(4, 1)
opt = torch.optim.AdamW(net.parameters())
k = 16
def due(index):
    return (index + 1) % k == 0
for epoch in range(5):
    for index, x in enumerate(loader):
        loss = net(x).mean() / k
        loss.backward()
        if due(index):
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for i, (x, y) in enumerate(data):
        (nn.functional.cross_entropy(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0 or i + 1 == len(data):
            optimizer.step()
            optimizer.zero_grad()
for epoch in range(10):
    for i, (x, y) in enumerate(data):
        (nn.functional.cross_entropy(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = 0
for epoch in range(10):
    for x, y in data:
        (nn.functional.cross_entropy(model(x), y) / 4).backward()
        seen += 1
        if seen % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
for i, (x, y) in enumerate(stream):
    (nn.functional.cross_entropy(model(x), y) / 4).backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for i in range(64):
        (model(batches[i]).mean() / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at each accumulated step that only a multiple of k brings."""
    if managed(context):
        return
    for update in updates(context):
        held = accumulation(update)
        if held is None or not _plain(held) or held.count in (None, 1) or len(update.steps) > 1:
            continue
        if held.from_zero or not _counts_the_loop(update, held) or _flushed(context, update):
            continue
        dropped = _cleared(context, update)
        effect = (
            "they are dropped when the next epoch clears the gradients"
            if dropped
            else "they are added to the first step of the next epoch, and lost after the last one"
        )
        yield context.finding(
            RULE,
            update.steps[0],
            f"batches that are left over at the end of an epoch, up to {(held.count or 2) - 1}, get no step of their own: {effect}",
            evidence=[
                Evidence("batches per step", held.count),
                Evidence("left over", "batches % k", arithmetic="103 % 4 = 3"),
            ],
            fix=Fix(
                title="step on the last batch too",
                safe=False,
                instruction="test (i + 1) % k == 0 or i + 1 == len(loader)",
                expected="every batch is used once, in its own epoch",
            ),
        )


def _plain(held: Accumulation) -> bool:
    """Whether the test is nothing but a remainder: no second condition brings a step."""
    base = settle(held.test) if held.test is not None else None
    for _ in range(3):
        if isinstance(base, Obj) and base.kind == "op" and base.name in ("==", "!=", "not") and base.args:
            base = settle(base.args[0])
    return held.kind == "test" and held.divisible is True and modulo(base) is not None


def _counts_the_loop(update: Update, held: Accumulation) -> bool:
    """Whether what is counted starts anew in each epoch: the index that ``enumerate`` gives to the batches."""
    if not update.loop.outer or _counted(update):
        return False
    made = update.loop.frame.value
    names = {p.name for p in provenance(made, 12) if isinstance(p, Obj)}
    if "builtins.enumerate" not in names:
        return False
    for part in provenance(held.index, 8):
        if isinstance(part, Unknown) and isinstance(part.initial, Known) and part.name in ("index", None):
            return True
    return False


def _counted(update: Update) -> bool:
    """Whether the loop makes a given number of passes, which may be a multiple of k on purpose."""
    return any(isinstance(p, Obj) and p.name == "builtins.range" for p in provenance(update.loop.frame.value, 12))


def _outside(context: Context, update: Update, name: str) -> list[Value | None]:
    """Receivers and arguments of calls of a method in the loop of epochs, outside the loop of batches."""
    epochs = update.loop.outer[0]
    found: list[Value | None] = []
    for event in context.trace.calls(name):
        if event.context.within(epochs) and not event.context.within(update.loop.frame):
            found += [event.receiver, *event.args]
    return found


def _flushed(context: Context, update: Update) -> bool:
    return any(v is not None and settle(v) is update.optimizer for v in _outside(context, update, ".step"))


def _cleared(context: Context, update: Update) -> bool:
    return bool(_outside(context, update, ".zero_grad"))
