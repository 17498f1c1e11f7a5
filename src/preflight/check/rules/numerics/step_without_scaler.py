"""The optimizer steps on gradients that are still multiplied by the loss scale.

## What it does
Looks for a backward pass through `scaler.scale(loss)` whose gradients an `optimizer.step()` applies, where no `scaler.step(optimizer)` and no `scaler.unscale_(optimizer)` takes the scale out again.

## Why
The gradients are 65,536 times too large at first.
SGD takes steps that are as much too long; Adam hardly sees a difference in the direction, but its `eps`, weight decay and clipping work on the wrong scale, and a step whose gradients overflowed is taken with infinities.

## Fix
Step through the scaler, and let it adapt: `scaler.step(optimizer)`, then `scaler.update()`.

## When to ignore
Never: a disabled scaler makes `scaler.step(optimizer)` the plain step.

## References
- PyTorch documentation, `torch.amp.GradScaler`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.precision import enabled, is_scaler, scaled_by
from preflight.check.queries.updates import Update, updates
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="step-without-scaler",
    code="AMP013",
    severity="error",
    confidence="likely",
    needs=("training_loop", "scaler"),
    layer="D",
    tags=("precision", "optimizer"),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    optimizer.step()
    scaler.update()
""",
    """
import torch
import torch.nn as nn
from torch.cuda.amp import GradScaler as Scaler
class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 4)
        self.opt = torch.optim.AdamW(self.net.parameters())
        self.scaler = Scaler()
    def update(self, x):
        self.opt.zero_grad()
        scaled = self.scaler.scale(self.net(x).mean())
        scaled.backward()
        self.opt.step()
t = Trainer()
for x in data:
    t.update(x)
""",
    """
import torch
net, head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
one, two = torch.optim.Adam(net.parameters()), torch.optim.Adam(head.parameters())
scaler = torch.amp.GradScaler("cuda")
for x in data:
    one.zero_grad()
    two.zero_grad()
    scaler.scale(head(net(x)).mean()).backward()
    scaler.step(one)
    two.step()
    scaler.update()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x, y in data:
    optimizer.zero_grad()
    scaler.scale(nn.functional.cross_entropy(model(x), y)).backward()
    scaler.unscale_(optimizer)
    if all(torch.isfinite(p.grad).all() for p in model.parameters()):
        optimizer.step()
    scaler.update()
""",
    """
import torch
from torch import nn
use_amp = bool(input())
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
for x, y in data:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    if use_amp:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()
""",
    """
import torch
gen, disc = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)
one, two = torch.optim.Adam(gen.parameters()), torch.optim.Adam(disc.parameters())
scaler = torch.amp.GradScaler("cuda")
for x in data:
    two.zero_grad()
    disc(x).mean().backward()
    two.step()
    one.zero_grad()
    scaler.scale(gen(x).mean()).backward()
    scaler.step(one)
    scaler.update()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find optimizers that step directly after scaled backward passes only."""
    for update in updates(context):
        if any(is_scaler(context, step.receiver) for step in update.steps) or _unscaled(context, update):
            continue
        backwards = update.backwards(sure=True)
        scaling = [scaled_by(context, backward) for backward in backwards]
        if not backwards or not all(scaler is not None and enabled(scaler) for scaler in scaling):
            continue
        yield _finding(context, update.steps[0], backwards[0])


def _unscaled(context: Context, update: Update) -> bool:
    """Whether a scaler takes the scale out of gradients, or of which optimizer it steps is not known."""
    for event in context.trace.calls(".unscale_", ".step"):
        if is_scaler(context, event.receiver) and event.args and context.roles.of(event.args[0]) != "optimizer":
            return True
        if event.name == ".unscale_" and is_scaler(context, event.receiver):
            return True
    return any(context.roles.of(step.receiver) != "optimizer" for step in update.steps)


def _finding(context: Context, step: Event, backward: Event) -> Finding:
    return context.finding(
        RULE,
        step,
        "the optimizer applies gradients of a scaled loss: they are multiplied by the loss scale, 65,536 at first",
        evidence=[Evidence("backward passes through the scaler", 1), Evidence("steps through the scaler", 0)],
        fix=Fix(
            title="step through the scaler",
            safe=False,
            instruction="write scaler.step(optimizer) and scaler.update() in place of optimizer.step()",
            expected="gradients are unscaled before they are applied, and steps with overflow are skipped",
        ),
        related=[(backward, "the loss is scaled here")],
    )
