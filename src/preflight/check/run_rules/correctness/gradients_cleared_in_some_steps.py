"""Gradients are cleared in some steps and not in others.

## What it does
Finds an optimizer that steps, some of the time, on gradients that still hold what the step before has used, and some of the time on fresh ones.

## Why
PyTorch adds new gradients to the old ones.
Where the clearing comes every second batch, or once an epoch, while the optimizer steps on every batch, the gradient of one batch is applied again and again: the effective learning rate changes from step to step.
Mostly the condition around `zero_grad()` and the one around `step()` are not the same.

## Fix
Clear right after (or before) every step, under the same condition as the step.

## When to ignore
When old gradients are kept as a momentum on purpose.

## References
- PyTorch, "Zeroing out gradients in PyTorch" (recipes)
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import plain_updates
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="gradients-cleared-in-some-steps",
    code="ACC006",
    severity="error",
    confidence="likely",
    layer="V",
    tags=("optimizer", "accumulation", "dry-run"),
)

BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
every = 2
for number in range(8):
    if number % every == 0:
        opt.zero_grad()
    (net(torch.randn(4, 8, device="cuda")).square().mean() / every).backward()
    opt.step()
""",
    """
import torch
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(8, 2).cuda()
        self.opt = torch.optim.AdamW(self.net.parameters())
        self.count = 0
    def clear(self):
        self.count += 1
        if self.count % 2:
            self.net.zero_grad()
    def update(self, x):
        self.net(x).square().mean().backward()
        self.opt.step()
        self.clear()
trainer = Trainer()
for _ in range(8):
    trainer.update(torch.randn(4, 8, device="cuda"))
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(4):
    for number in range(2):
        net(torch.randn(4, 8, device="cuda")).square().mean().backward()
        opt.step()
    opt.zero_grad()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for number in range(8):
    (net(torch.randn(4, 8, device="cuda")).square().mean() / 2).backward()
    if number % 2:
        opt.step()
        opt.zero_grad()
""",
    """
import torch
maker, judge = torch.nn.Linear(4, 8).cuda(), torch.nn.Linear(8, 1).cuda()
one, two = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
for step in range(20):
    two.zero_grad()
    judge(maker(torch.randn(4, 4, device="cuda")).detach()).mean().backward()
    two.step()
    if step % 2:
        one.zero_grad()
        judge(maker(torch.randn(4, 4, device="cuda"))).mean().neg().backward()
        one.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find optimizers for which some steps, but not all after the first, find old gradients."""
    for _, optimizer, steps in plain_updates(run):
        later = [item for item in steps[1:] if item.data["live"]]
        stale = [item for item in later if item.data["reused"]]
        if not stale or len(stale) == len(later):
            continue
        last = stale[-1]
        yield run.finding(
            RULE,
            last.data["cleared"] or last.line,
            f"{optimizer.kind} steps {len(stale)} of {len(later)} times on gradients that still hold those of the step before: they "
            "are cleared in some steps only",
            evidence=[
                seen("steps", len(steps)),
                seen("steps on gradients that were used before", len(stale)),
                seen("parameters with old gradients", last.data["reused"]),
            ],
            fix=Fix(
                title="clear the gradients with every step",
                instruction="call zero_grad() under the same condition as step()",
                expected="each gradient is applied once",
            ),
            related=[(last.line, "the optimizer steps here")],
        )
