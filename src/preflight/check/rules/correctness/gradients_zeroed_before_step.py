"""Gradients are cleared before the optimizer uses them.

## What it does
Looks for a call that clears gradients between `backward()` and the `step()` that should use them, and for one that clears them at every micro-batch of an accumulated step.

## Why
`step()` reads what `backward()` left in `p.grad`.
Cleared in between, the step sees nothing: SGD stands still, Adam moves by momentum of zero, and no error is raised.
Cleared at every one of k micro-batches, k - 1 of k gradients are computed and thrown away.

## Fix
Clear gradients once per step: right after `step()`, or before the first `backward()` of the step.

## When to ignore
When the first of two backwards is run only for its side effects.

## References
- PyTorch documentation, `torch.optim.Optimizer.zero_grad`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.updates import Update, accumulation, happens_with, managed, updates
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import same_guards
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="gradients-zeroed-before-step",
    code="OPT002",
    severity="error",
    confidence="likely",
    needs=("training_loop", "optimizer"),
    layer="D",
    tags=("optimizer",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
""",
    """
from torch.optim import AdamW as Opt
import torch.nn as nn
class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(10, 4), nn.ReLU(), nn.Linear(4, 2))
        self.opt = Opt(self.net.parameters())
    def update(self, loss):
        loss.backward()
        self.net.zero_grad()
        self.opt.step()
    def fit(self):
        for x, y in loader:
            self.update(nn.functional.mse_loss(self.net(x), y))
Trainer().fit()
""",
    """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=4)
args = parser.parse_args()
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
for i, (x, y) in enumerate(data):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y) / args.accumulate
    loss.backward()
    if (i + 1) % args.accumulate == 0:
        optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
for batch in data:
    for part in batch.chunk(4):
        optimizer.zero_grad()
        loss = model(part).pow(2).mean() / 4
        loss.backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(data):
    loss = nn.functional.cross_entropy(model(x), y) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    """
import torch
from torch import nn
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
for i, x in enumerate(data):
    fake = G(torch.randn(4, 8))
    opt_d.zero_grad()
    (D(fake.detach()).mean() - D(x).mean()).backward()
    opt_d.step()
    opt_g.zero_grad()
    if i % 5 == 0:
        (-D(G(torch.randn(4, 8))).mean()).backward()
        opt_g.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    if not torch.isfinite(loss):
        optimizer.zero_grad()
        continue
    optimizer.step()
    optimizer.zero_grad()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Order the backwards, clearings and steps of each optimizer within one pass of its loop."""
    for update in updates(context):
        if managed(context, update.optimizer):
            continue
        found = _between(update) or _each_micro_batch(update)
        if found is None:
            continue
        zero, backward, step, text = found
        yield context.finding(
            RULE,
            zero,
            text,
            evidence=[
                Evidence("order in one pass of the loop", _order(backward, zero, step)),
                Evidence("backwards whose gradients reach the step", 0 if backward.number < zero.number else 1),
            ],
            fix=Fix(
                title="clear gradients once per step, after step()",
                safe=False,
                instruction=f"move the call that clears gradients behind {update.name()}.step(), or before the first backward of the step",
                expected="the step uses the gradients that were computed for it",
            ),
            related=[(backward, "gradients are computed here"), (step, "the optimizer steps here")],
        )


def _order(*events: Event) -> str:
    return " > ".join(e.name.lstrip(".").rpartition(".")[2] for e in sorted(events, key=lambda e: e.number))


def _between(update: Update) -> tuple[Event, Event, Event, str] | None:
    """A clearing after the last backward and before the step."""
    frame = update.loop.frame
    for step in update.steps:
        if update.steps and step.args and step.name == ".step" and step.receiver is update.optimizer:
            continue  # a closure computes its own gradients
        for zero in update.zeros:
            if zero.number > step.number or not happens_with(zero, step, frame):
                continue
            before = [b for b in update.backwards(sure=True) if b.number < zero.number and same_guards(b, step)]
            after = [b for b in update.loop.backwards if b.number > zero.number and b.number < step.number]
            between = [
                s
                for s in update.loop.steps
                if before and before[-1].number < s.number < step.number and s in update.steps
            ]
            if before and not after and not between and not _opaque(update, zero, step):
                text = "gradients are cleared between backward() and step(): the optimizer steps without them"
                return zero, before[-1], step, text
    return None


def _opaque(update: Update, zero: Event, step: Event) -> bool:
    """Whether something between clearing and step may compute gradients where it is not seen."""
    for event in update.loop.events:
        if zero.number < event.number < step.number and not event.inlined:
            if event.name in ("?", "torch.autograd.grad") or (event.name.startswith(".") and "backward" in event.name):
                return True
            if not event.name.startswith((".", "builtins.", "torch.")) and event.args and event.name != "()":
                return True
    return False


def _each_micro_batch(update: Update) -> tuple[Event, Event, Event, str] | None:
    """A clearing at every micro-batch, while the step comes every k-th time."""
    held = accumulation(update)
    if held is None or held.count == 1 or not update.alone:
        return None
    frame, step = update.loop.frame, update.steps[0]
    backwards = update.backwards(sure=True)
    if not backwards or len(update.steps) > 1:
        return None
    backward = backwards[0]
    for zero in update.zeros:
        inside = zero.context.within(held.frame) if held.kind == "loop" else not zero.context.within(held.frame)
        if (
            inside
            and happens_with(zero, backward, frame)
            and zero.number < backward.number
            and not _first_only(zero, update)
        ):
            many = f"{held.count}" if held.count else "k"
            text = f"gradients are cleared before each backward while the optimizer steps once in {many}: all but the last micro-batch are thrown away"
            return zero, backward, step, text
    return None


def _first_only(zero: Event, update: Update) -> bool:
    """Whether the clearing itself is held back."""
    for frame in zero.context.frames():
        if frame is update.loop.frame:
            return False
        if frame.kind in ("if", "except"):
            return True
    return False
