"""Sees optimizers that step and have a scheduler, none of which steps to the end of the script."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import unreached
from preflight.check.rules.correctness.scheduler_never_steps import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(opt, 2)
for epoch in range(3):
    for _ in range(4):
        opt.zero_grad()
        net(torch.randn(4, 8, device="cuda")).sum().backward()
        opt.step()
    schedule.get_last_lr()
""",
    """
import torch
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(8, 2).cuda()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda step: min(1.0, step / 100))
    def fit(self):
        for _ in range(8):
            self.opt.zero_grad()
            self.net(torch.randn(4, 8, device="cuda")).sum().backward()
            self.opt.step()
Trainer().fit()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt, other = torch.optim.Adam(net.parameters()), torch.optim.Adam([torch.nn.Parameter(torch.ones(2, device="cuda"))])
schedules = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (opt, other)]
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    opt.step()
    schedules[1].step()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.SequentialLR(
    opt,
    [torch.optim.lr_scheduler.LinearLR(opt), torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10)],
    milestones=[2],
)
for epoch in range(3):
    for _ in range(4):
        opt.zero_grad()
        net(torch.randn(4, 8, device="cuda")).sum().backward()
        opt.step()
    schedule.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(opt, 2)
for epoch in range(30):
    for _ in range(4):
        opt.zero_grad()
        net(torch.randn(4, 8, device="cuda")).sum().backward()
        opt.step()
    if epoch > 10:
        schedule.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find optimizers with schedulers of which none steps, where the run came past every call of step()."""
    if run.profile.outcome not in ("ended", "exited") or unreached(run, "step"):
        return
    moved = {item.data["optimizer"] for item in run.seen("scheduler step")}
    for number, optimizer in enumerate(run.optimizers):
        made = [item for item in run.seen("scheduler made") if item.data["optimizer"] == number]
        steps = [item for item in run.seen("optimizer step") if item.data["optimizer"] == number]
        if not made or number in moved or len(steps) < 2:
            continue
        rates = {rate for item in steps for rate in item.data["rates"]}
        if len({tuple(item.data["rates"]) for item in steps}) > 1:
            continue  # the rate is set by other means
        told = ", ".join(f"{rate:g}" for rate in sorted(rates))
        yield run.finding(
            RULE,
            made[-1].line,
            f"{made[-1].data['scheduler']} never steps: the learning rate of {optimizer.kind} stays at {told}"
            + (", and nothing is learned" if rates == {0.0} else ""),
            evidence=[
                seen("steps of the scheduler", 0),
                seen("steps of the optimizer", len(steps)),
                seen("learning rates that were used", told),
            ],
            fix=Fix(
                title="step the scheduler",
                instruction="call scheduler.step() after each epoch, or after each optimizer step where the schedule counts steps",
                expected="the learning rate follows the schedule",
            ),
            related=[(steps[-1].line, "the optimizer steps here")],
            severity="error" if rates == {0.0} else None,
        )
