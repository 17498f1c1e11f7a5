"""Sees a scheduler's first step before the first step of its optimizer."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.scheduler_before_optimizer import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True


BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(opt, 2)
def update(loss, things):
    opt.zero_grad()
    loss.backward()
    for thing in things:
        thing.step()
for _ in range(8):
    update(net(torch.randn(4, 8, device="cuda")).sum(), [schedule, opt])
""",
    """
import torch
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(8, 2).cuda()
        self.opt = torch.optim.Adam(self.net.parameters())
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, 10)
    def begin(self):
        self.schedule.step()
    def epoch(self):
        self.begin()
        for _ in range(4):
            self.opt.zero_grad()
            self.net(torch.randn(4, 8, device="cuda")).sum().backward()
            self.opt.step()
trainer = Trainer()
for _ in range(3):
    trainer.epoch()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: min(1.0, (step + 1) / 10))
steps = {"a": warm.step, "b": opt.step}
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    for name in sorted(steps):
        steps[name]()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(opt, 2)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    opt.step()
    schedule.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(opt, 100)
for _ in range(30):  # goes on where a run before has ended
    schedule.step()
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    opt.step()
    schedule.step()
""",
    """
import torch
from torch.optim import lr_scheduler as schedules
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
warm = schedules.LinearLR(opt, 0.1, total_iters=3)
rest = schedules.CosineAnnealingLR(opt, T_max=5)
schedule = schedules.SequentialLR(opt, [warm, rest], milestones=[3])
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    opt.step()
    schedule.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find optimizers whose scheduler takes one step before they take their first."""
    for number, optimizer in enumerate(run.optimizers):
        steps = [item for item in run.seen("optimizer step") if item.data["optimizer"] == number]
        moves = [item for item in run.seen("scheduler step") if item.data["optimizer"] == number]
        early = [item for item in moves if steps and item.order < steps[0].order]
        if len(early) != 1:
            continue
        move = early[0]
        yield run.finding(
            RULE,
            move.line,
            f"{move.data['scheduler']} steps before {optimizer.kind} does: the first learning rate is never used, and the whole "
            "schedule runs one step early",
            evidence=[
                seen("steps of the optimizer before", 0),
                seen("learning rates of the first step", ", ".join(f"{rate:g}" for rate in steps[0].data["rates"])),
                seen("learning rate that was set first", optimizer.defaults.get("lr")),
            ],
            fix=Fix(
                title="step the scheduler after the optimizer",
                instruction="call scheduler.step() after optimizer.step(), or at the end of the epoch",
                expected="the schedule begins with its first value",
            ),
            related=[(steps[0].line, "the optimizer steps here")],
            confidence="certain",
        )
