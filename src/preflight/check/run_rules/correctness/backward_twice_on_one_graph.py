"""Sees the error of a second backward pass through one graph."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.backward_twice_on_one_graph import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True


BAD = (
    """
import torch
maker, judge = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh()).cuda(), torch.nn.Linear(8, 1).cuda()
one, two = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
def train_judge(made):
    two.zero_grad()
    judge(made).sigmoid().mean().backward()
    two.step()
def train_maker(made):
    one.zero_grad()
    judge(made).sigmoid().mean().neg().backward()
    one.step()
for _ in range(8):
    made = maker(torch.randn(4, 4, device="cuda"))
    train_judge(made)
    train_maker(made)
""",
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).cuda()
opt = torch.optim.Adam(net.parameters())
for _ in range(8):
    opt.zero_grad()
    out = net(torch.randn(4, 8, device="cuda"))
    main, extra = out.square().mean(), out.tanh().mean()
    main.backward()
    extra.backward()
    opt.step()
""",
    """
import torch
class Trainer:
    def __init__(self):
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def losses(self, x):
        out = self.net(x)
        yield out[:, 0].square().mean()
        yield out[:, 1].square().mean()
    def update(self, x):
        self.opt.zero_grad()
        first, second = self.losses(x)
        first.backward()
        second.backward()
        self.opt.step()
trainer = Trainer()
for _ in range(8):
    trainer.update(torch.randn(4, 8, device="cuda"))
""",
)

GOOD = (
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).cuda()
opt = torch.optim.Adam(net.parameters())
for _ in range(8):
    opt.zero_grad()
    out = net(torch.randn(4, 8, device="cuda"))
    out.square().mean().backward(retain_graph=True)
    out.tanh().mean().backward()
    opt.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Explain the exception, where the first pass was in the same step."""
    if not run.raised("backward through the graph a second time"):
        return
    passes = run.seen("backward")
    if len(passes) < 2 or passes[-1].line == passes[-2].line or run.between(passes[-2], passes[-1], "scheduler step"):
        return  # the same line again: the graph reaches into the step before
    yield run.finding(
        RULE,
        passes[-1].line,
        "backward() goes through a graph that the backward pass before has freed, and raises an error",
        evidence=[
            seen("backward passes that succeeded", len(run.seen("gradients"))),
            seen("the pass before keeps its graph", bool(passes[-2].data["retain"])),
        ],
        fix=Fix(
            title="detach what the first loss does not train, or add the losses",
            instruction="give the first loss a detached input, or call backward() once on the sum of the losses",
            expected="each graph is gone through once",
        ),
        related=[(passes[-2].line, "the graph is freed here")],
        confidence="certain",
    )
