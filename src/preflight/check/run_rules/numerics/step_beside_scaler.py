"""Sees steps beside a gradient scaler: on gradients that it has used already, or that are still scaled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import plain_updates
from preflight.check.rules.numerics.step_beside_scaler import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
scaler = torch.amp.GradScaler("cuda")
def apply(*steps):
    for step in steps:
        step()
for _ in range(8):
    opt.zero_grad()
    with torch.autocast("cuda"):
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    apply(lambda: scaler.step(opt), scaler.update, opt.step)
""",
    """
import torch
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(8, 2).cuda()
        self.opt = torch.optim.AdamW(self.net.parameters())
        self.scaler = torch.cuda.amp.GradScaler()
    def backward(self, loss):
        self.scaler.scale(loss).backward()
    def step(self):
        self.opt.step()
        self.opt.zero_grad()
trainer = Trainer()
for _ in range(8):
    with torch.autocast("cuda"):
        loss = trainer.net(torch.randn(4, 8, device="cuda")).square().mean()
    trainer.backward(loss)
    trainer.step()
""",
    """
import torch
a, b = torch.nn.Linear(8, 4).cuda(), torch.nn.Linear(4, 2).cuda()
optimizers = [torch.optim.Adam(a.parameters()), torch.optim.Adam(b.parameters())]
scaler = torch.amp.GradScaler("cuda")
for _ in range(8):
    a.zero_grad(), b.zero_grad()
    with torch.autocast("cuda"):
        loss = b(a(torch.randn(4, 8, device="cuda"))).square().mean()
    scaler.scale(loss).backward()
    for number, optimizer in enumerate(optimizers):
        optimizer.step() if number else scaler.step(optimizer)
    scaler.update()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(8):
    opt.zero_grad()
    with torch.autocast("cuda"):
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for _ in range(8):
    opt.zero_grad()
    with torch.autocast("cuda"):
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    opt.step()
    scaler.update()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find optimizers that step twice on the same gradients, or step on scaled ones."""
    for _, optimizer, steps in plain_updates(run):
        through = [item for item in steps if item.data["scaler"]]
        direct = [item for item in steps if not item.data["scaler"]]
        # The watcher drops the mark of the scale when the scaler divides by it.
        scaled = [item for item in direct if item.data["scaled"] and item.data["live"]]
        again = [item for item in direct if through and not item.data["fed"] and item.data["reused"]]
        first = [
            before
            for before, after in pairwise(steps)
            if after.data["scaler"] and not before.data["scaler"] and not after.data["fed"]
        ]
        found = max(scaled, again + first, key=len)
        if len(found) < 2:
            continue
        last = found[-1]
        text = (
            f"{optimizer.kind} steps on {last.data['scaled']} gradients that are still multiplied by the loss scale"
            if found is scaled
            else f"{optimizer.kind} steps directly and through the scaler on the same gradients: each is applied twice"
        )
        yield run.finding(
            RULE,
            last.line,
            text,
            evidence=[
                seen("direct steps", len(direct)),
                seen("steps through the scaler", len(through)),
                seen("direct steps on scaled gradients", len(scaled)),
            ],
            fix=Fix(
                title="step through the scaler alone",
                instruction="call scaler.step(optimizer) and scaler.update(), and remove optimizer.step()",
                expected="each gradient is divided by the scale and applied once, and steps with an overflow are skipped",
            ),
            related=[(optimizer.line, "the optimizer is made here")],
            confidence="certain",
        )
