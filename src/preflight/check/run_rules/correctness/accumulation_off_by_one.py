"""Sees a first step on one batch where all later ones use several."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.accumulation import one_batch_each, only_updates
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.accumulation_off_by_one import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def due(i, every=4):
    return not i % every
for i in range(40):
    (net(torch.randn(4, 8, device="cuda")).square().mean() / 4).backward()
    if due(i):
        optimizer.step()
        optimizer.zero_grad()
""",
    """
import itertools, torch
net = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.AdamW(net.parameters())
for _, last in zip(range(40), itertools.cycle([True, False, False])):
    (net(torch.randn(4, 8, device="cuda")).square().mean() / 3).backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
""",
    """
import torch
class Trainer:
    def __init__(self):
        self.net, self.seen = torch.nn.Linear(8, 2).cuda(), 0
        self.optimizer = torch.optim.Adam(self.net.parameters())
    def batch(self, x):
        (self.net(x).square().mean() / 2).backward()
        if self.seen % 2 == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.seen += 1
trainer = Trainer()
for _ in range(20):
    trainer.batch(torch.randn(4, 8).cuda())
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(40):
    (net(torch.randn(4, 8, device="cuda")).square().mean() / 4).backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find a first step of one backward pass, and later ones of more, always as many."""
    steps = only_updates(run)
    if len(steps) < 2 or steps[0].data["alive"] != 1 or not all(one_batch_each(run, step) for step in steps):
        return
    later = {item.data["alive"] for item in steps[1:]}
    if len(later) != 1 or min(later) < 2:
        return
    count = later.pop()
    yield run.finding(
        RULE,
        steps[0].line,
        f"the first step comes after 1 backward pass and every later one after {count}: the test of the accumulated step is off "
        "by one",
        evidence=[
            seen("backward passes before the first step", 1),
            seen("backward passes before each later step", count),
        ],
        fix=Fix(
            title="count from one",
            instruction=f"test (i + 1) % {count} == 0, and step once more on the last batch",
            expected=f"every step uses {count} batches",
        ),
    )
