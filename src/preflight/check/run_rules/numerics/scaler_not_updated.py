"""Sees the errors of a gradient scaler that is not updated between two steps, or unscales twice."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.numerics.scaler_not_updated import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
scaler = torch.amp.GradScaler("cuda")
def apply(s, finish=False):
    s.step(opt)
    if finish:
        s.update()
for _ in range(8):
    opt.zero_grad()
    with torch.autocast("cuda"):
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    apply(scaler)
""",
    """
import torch
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(8, 2).cuda()
        self.opt = torch.optim.Adam(self.net.parameters())
        self.scaler = torch.amp.GradScaler("cuda")
    def norm(self):
        self.scaler.unscale_(self.opt)
        return torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
    def update(self, x):
        self.opt.zero_grad()
        with torch.autocast("cuda"):
            loss = self.net(x).square().mean()
        self.scaler.scale(loss).backward()
        self.norm()
        self.norm()
        self.scaler.step(self.opt)
        self.scaler.update()
trainer = Trainer()
for _ in range(8):
    trainer.update(torch.randn(4, 8, device="cuda"))
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
scalers = {name: torch.amp.GradScaler("cuda") for name in ("step", "update")}
for _ in range(8):
    opt.zero_grad()
    with torch.autocast("cuda"):
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    scalers["step"].scale(loss).backward()
    scalers["step"].step(opt)
    scalers["update"].scale(loss)
    scalers["update"].update(1024.0)
""",
)

GOOD = (
    """
import torch
a, b = torch.nn.Linear(8, 4).cuda(), torch.nn.Linear(4, 2).cuda()
one, two = torch.optim.Adam(a.parameters()), torch.optim.Adam(b.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(8):
    a.zero_grad(), b.zero_grad()
    with torch.autocast("cuda"):
        loss = b(a(torch.randn(4, 8, device="cuda"))).square().mean()
    scaler.scale(loss).backward()
    for optimizer in (one, two):
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
    scaler.update()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Explain the exception."""
    again = run.raised("step() has already been called since the last update()")
    twice = run.raised("unscale_() has already been called on this optimizer since the last update()") or run.raised(
        "unscale_() is being called after step()"
    )
    if not again and not twice:
        return
    yield run.finding(
        RULE,
        run.raised_at,
        "the scaler steps again without update() since its last step, and raises an error"
        if again
        else "unscale_ is called again for an optimizer before update(), and raises an error",
        evidence=[
            seen("error", run.profile.message or ""),
            seen("steps of scalers", len(run.seen("scaler step"))),
            seen("updates of scalers", len(run.seen("scaler update"))),
        ],
        fix=Fix(
            title="call update() once per step" if again else "unscale once per step",
            instruction="call scaler.update() once per step, after the last scaler.step()"
            if again
            else "call unscale_ once per step and optimizer, where the step is",
            expected="the scale adapts, and the next step is accepted",
        ),
        confidence="certain",
    )
