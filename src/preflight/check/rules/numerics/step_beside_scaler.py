"""The optimizer steps directly as well as through the scaler.

## What it does
Looks for `optimizer.step()` and `scaler.step(optimizer)` for the same optimizer in one pass of the loop.

## Why
Each gradient is applied twice.
Where the direct step comes before the scaler's, it applies gradients that are still multiplied by the scale, 65,536 at first, and it does so even when they overflowed.

## Fix
Keep `scaler.step(optimizer)` only: with a disabled scaler it is the plain step.

## When to ignore
Never, when both happen in the same pass.

## References
- PyTorch documentation, `torch.amp.GradScaler.step`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.precision import is_scaler
from preflight.check.queries.updates import happens_with, updates
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="step-beside-scaler",
    code="AMP004",
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
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.cuda.amp.GradScaler()
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.step()
""",
    """
import torch
import torch.nn as nn
from torch.amp import GradScaler as Scaler
class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 4)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.scaler = Scaler("cuda")
    def apply(self):
        self.opt.step()
    def update(self, x):
        self.opt.zero_grad()
        self.scaler.scale(self.net(x).mean()).backward()
        self.apply()
        self.scaler.step(self.opt)
        self.scaler.update()
t = Trainer()
for x in data:
    t.update(x)
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--amp", type=int, default=1)
args = parser.parse_args()
net = torch.nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters())
scaler = torch.cuda.amp.GradScaler(enabled=bool(args.amp))
for x in data:
    opt.zero_grad()
    scaler.scale(net(x).mean()).backward()
    if args.amp:
        scaler.step(opt)
        scaler.update()
    opt.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
use_amp = bool(input())
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.cuda.amp.GradScaler()
for x, y in data:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    if use_amp:
        scaler.scale(loss).backward()
    else:
        loss.backward()
    if use_amp:
        scaler.step(optimizer)
        scaler.update()
    if not use_amp:
        optimizer.step()
""",
    """
import torch
from torch import nn
a, b = nn.Linear(8, 8), nn.Linear(8, 1)
one, two = torch.optim.Adam(a.parameters()), torch.optim.Adam(b.parameters())
scaler = torch.amp.GradScaler("cuda")
for x in data:
    one.zero_grad(); two.zero_grad()
    scaler.scale(a(x).mean()).backward()
    scaler.step(one)
    scaler.update()
    b(x).mean().backward()
    two.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find optimizers with both kinds of step in one pass."""
    for update in updates(context):
        through = [s for s in update.steps if is_scaler(context, s.receiver)]
        direct = [s for s in update.steps if s.receiver is not None and context.roles.of(s.receiver) == "optimizer"]
        pairs = [
            (d, t)
            for d in direct
            for t in through
            if happens_with(d, t, update.loop.frame) or happens_with(t, d, update.loop.frame)
        ]
        pairs = [
            (d, t)
            for d, t in pairs
            if not any(min(d.number, t.number) < b.number < max(d.number, t.number) for b in update.loop.backwards)
        ]
        if not pairs:
            continue
        step, scaled = pairs[0]
        yield context.finding(
            RULE,
            step,
            "the optimizer steps directly and through the scaler in one pass: each gradient is applied twice",
            evidence=[Evidence("steps through the scaler", len(through)), Evidence("direct steps", len(direct))],
            fix=Fix(
                title="remove the direct step",
                safe=False,
                instruction="keep scaler.step(optimizer) and remove optimizer.step()",
                expected="each gradient is applied once, and steps with overflow are skipped",
            ),
            related=[(scaled, "the scaler steps here")],
        )
