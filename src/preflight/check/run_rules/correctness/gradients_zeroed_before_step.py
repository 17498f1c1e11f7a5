"""Sees steps that find cleared what the backward passes before them had computed."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import plain_updates
from preflight.check.rules.correctness.gradients_zeroed_before_step import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import Observation, OptimizerSeen

SETTLES = True

BAD = (
    """
import torch
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(8, 2).cuda()
        self.opt = torch.optim.AdamW(self.net.parameters())
    def loss(self, x):
        self.net(x).square().mean().backward()
    def update(self, clear=True):
        if clear:
            self.opt.zero_grad()
        self.opt.step()
trainer = Trainer()
for _ in range(8):
    trainer.loss(torch.randn(4, 8, device="cuda"))
    trainer.update()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def prepare(module):
    for p in module.parameters():
        if p.grad is not None:
            p.grad.zero_()
for _ in range(8):
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    prepare(net)
    opt.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def accumulate(x):
    opt.zero_grad()
    (net(x).square().mean() / 2).backward()
for number in range(8):
    accumulate(torch.randn(4, 8, device="cuda"))
    if number % 2:
        opt.step()
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
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def gradients(x):
    net(x).square().mean().backward()
for number in range(8):  # a step up the slope first, as sharpness-aware minimisation does
    x = torch.randn(4, 8, device="cuda")
    gradients(x)
    with torch.no_grad():
        moves = [p.grad * 0.05 for p in net.parameters()]
        for p, move in zip(net.parameters(), moves):
            p.add_(move)
    opt.zero_grad()
    gradients(x)
    with torch.no_grad():
        for p, move in zip(net.parameters(), moves):
            p.sub_(move)
    opt.step()
    opt.zero_grad()
""",
    """
import torch
maker, judge = torch.nn.Linear(4, 8).cuda(), torch.nn.Linear(8, 1).cuda()
one, two = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
for _ in range(8):
    made = maker(torch.randn(4, 4, device="cuda"))
    maker.zero_grad()
    judge(made).mean().neg().backward()
    one.step()
    judge.zero_grad()
    judge(made.detach()).mean().backward()
    two.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find optimizers whose gradients are thrown away before each step, all of them or all but the last."""
    first = next((item.order for item in run.seen("backward")), 0)
    trained = plain_updates(run)
    for _, optimizer, steps in trained:
        if steps[0].order < first:
            continue  # its steps come before the backward passes
        last = steps[-1].data
        if all(item.data["fed"] and not item.data["live"] for item in steps):
            text = f"{last['lost']} gradients are cleared after backward() and before {optimizer.kind} steps: it steps on nothing"
            yield _finding(run, optimizer, steps, text, 0)
        elif len(trained) == 1 and all(_last_only(item) for item in steps):
            text = (
                f"gradients are cleared before each backward() while {optimizer.kind} steps once in {last['passes']}: all but "
                "the last are thrown away"
            )
            yield _finding(run, optimizer, steps, text, 1)


def _last_only(step: Observation) -> bool:
    data = step.data
    return data["passes"] > 1 and data["alive"] == 1 and len(data["lines"]) == 1 and not data["closure"]


def _finding(run: Run, optimizer: OptimizerSeen, steps: list[Observation], text: str, used: int) -> Finding:
    last = steps[-1]
    line = last.data["cleared"] or last.line
    return run.finding(
        RULE,
        line,
        text,
        evidence=[
            seen("backward passes for a step", last.data["passes"]),
            seen("of them in the gradients that the step finds", used),
            seen("optimizer steps", len(steps)),
        ],
        fix=Fix(
            title="clear the gradients once per step, after step()",
            instruction="move the call that clears gradients behind the step, or before the first backward() of the step",
            expected="the step uses the gradients that were computed for it",
        ),
        related=[
            *((at, "gradients are computed here") for at in last.data["lines"]),
            (last.line, "the optimizer steps here"),
        ],
    )
