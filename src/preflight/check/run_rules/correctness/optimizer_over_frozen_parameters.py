"""Finds optimizers that step again and again while none of their parameters requires a gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.graph import NO_GRAPH
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import held_by, plain_updates, unreached
from preflight.check.rules.correctness.optimizer_over_frozen_parameters import RULE
from preflight.vocabulary.finding import Finding, Location, Severity

BAD = (
    """
import torch
body, head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)
net = torch.nn.Sequential(body, head).cuda()
for p in net.parameters():
    p.requires_grad = False
head.requires_grad = True  # a module has no such switch
scale = torch.nn.Parameter(torch.ones(1, device="cuda"))
opt, other = torch.optim.Adam(head.parameters()), torch.optim.SGD([scale], lr=0.1)
for _ in range(8):
    opt.zero_grad()
    other.zero_grad()
    (net(torch.randn(4, 8, device="cuda")) * scale).square().mean().backward()
    opt.step()
    other.step()
""",
    """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)
    def freeze(self, prefix):
        for name, p in self.named_parameters():
            p.requires_grad = name.startswith(prefix) and False
    def forward(self, x):
        return self.head(self.body(x))
net = Net().cuda()
net.freeze("body")
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    opt.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda().requires_grad_(False)
net.train()
opt = torch.optim.AdamW(net.parameters())
for _ in range(8):
    x = torch.randn(4, 8, device="cuda", requires_grad=True)
    net(x).sum().backward()
    opt.step()
    opt.zero_grad()
""",
)

GOOD = (
    """
import torch
maker, judge = torch.nn.Linear(4, 8).cuda(), torch.nn.Linear(8, 1).cuda()
one, two = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
for _ in range(8):
    judge.requires_grad_(True)
    two.zero_grad()
    judge(maker(torch.randn(4, 4, device="cuda")).detach()).mean().backward()
    two.step()
    judge.requires_grad_(False)
    one.zero_grad()
    judge(maker(torch.randn(4, 4, device="cuda"))).mean().neg().backward()
    one.step()
""",
    """
import torch
body, head = torch.nn.Linear(8, 8).cuda().requires_grad_(False), torch.nn.Linear(8, 2).cuda()
one, two = torch.optim.Adam(body.parameters()), torch.optim.Adam(head.parameters())
for epoch in range(20):
    if epoch == 10:
        body.requires_grad_(True)
    for _ in range(8):
        head(body(torch.randn(4, 8, device="cuda"))).sum().backward()
        for optimizer in (one, two):
            optimizer.step()
            optimizer.zero_grad()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find optimizers over frozen parameters alone, and runs that fail because all that an optimizer holds is frozen."""
    later = unreached(run, "requires_grad_") or _set_later(run)
    for number, optimizer, steps in plain_updates(run):
        if later or not all(item.data["frozen"] == optimizer.parameters and not item.data["live"] for item in steps):
            continue
        others = any(o.steps > 1 for at, o in enumerate(run.optimizers) if at != number)
        yield _finding(run, number, steps[-1].line, "steps", "warning" if others else "error")
    if run.raised(NO_GRAPH):
        for number in range(len(run.optimizers)):
            held = held_by(run, number)
            if held and not any(p.trainable for p in held) and len(run.optimizers) == 1:
                yield _finding(run, number, run.raised_at, "backward() fails", "error")


def _set_later(run: Run) -> bool:
    """Whether ``requires_grad`` is set in a place that the run did not get to."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "requires_grad"
        and isinstance(node.ctx, ast.Store)
        and run.reached(Location(path=script.path, line=node.lineno)) is not True
        for script in run.context.reading.scripts
        for node in ast.walk(script.tree)
    )


def _finding(run: Run, number: int, line: str, what: str, severity: Severity) -> Finding:
    optimizer = run.optimizers[number]
    return run.finding(
        RULE,
        optimizer.line,
        f"all {optimizer.parameters} parameters of {optimizer.kind} are frozen: "
        + (
            f"its {optimizer.steps} steps change nothing"
            if what == "steps"
            else "the loss has no gradient to go back to"
        ),
        evidence=[
            seen("parameters that require a gradient", 0),
            seen("parameters of the optimizer", optimizer.parameters),
            seen("steps", optimizer.steps),
        ],
        fix=Fix(
            title="unfreeze what is to be trained",
            instruction="call requires_grad_(True) on the modules that this optimizer is for, or remove the optimizer",
            expected="the optimizer finds gradients",
        ),
        related=[(line, "it steps here" if what == "steps" else "backward() fails here")],
        severity=severity,
    )
