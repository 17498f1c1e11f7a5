"""Sees backward() stop because the loss holds more than one number."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.loss_never_reduced import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import torch
from torch import nn
net = nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss(**{"reduction": "none"})
for _ in range(4):
    optimizer.zero_grad()
    criterion(net(torch.randn(4, 8).cuda()), torch.zeros(4, dtype=torch.long).cuda()).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Trainer:
    def __init__(self):
        self.net = nn.Linear(8, 1).cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def loss(self, x, y):
        return (self.net(x) - y) ** 2
    def step(self, x, y):
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
Trainer().step(torch.randn(4, 8).cuda(), torch.ones(4, 1).cuda())
""",
    """
import torch
from torch import nn
net = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
options = dict(reduction="none" if net.weight.is_cuda else "mean")
for _ in range(4):
    loss = nn.functional.mse_loss(net(torch.randn(4, 8).cuda()), torch.ones(4, 2).cuda(), **options).sum(1)
    loss.backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    out = net(torch.randn(4, 8).cuda())
    loss = nn.functional.cross_entropy(out, torch.zeros(4, dtype=torch.long).cuda(), reduction="none")
    (loss * torch.ones(4).cuda()).mean().backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look for the exception of backward(), and for a loss per example before it."""
    if not run.raised("grad can be implicitly created only for scalar outputs"):
        return
    backward = next(reversed(run.seen("backward")), None)
    count = backward.data["elements"] if backward is not None else 0
    losses = [
        i
        for i in run.seen("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy")
        if not i.data["reduction"]
    ]
    losses += [i for i in run.seen("nll_loss") if i.data.get("reduction") == 0]
    evidence = [seen("exception", "grad can be implicitly created only for scalar outputs")]
    if count > 1:
        evidence.append(seen("numbers in the loss", count))
    yield run.finding(
        RULE,
        run.raised_at,
        f"backward() is called on {count if count > 1 else 'several'} numbers instead of one loss: step "
        f"{run.profile.steps + 1} stops here",
        evidence=evidence,
        fix=Fix(
            title="reduce the loss to one number",
            instruction="call .mean() on the loss before backward(), or leave reduction='none' out",
            expected="backward gets one number",
        ),
        related=[(losses[-1].line, "a loss for each example is computed here")] if losses else (),
        confidence="certain",
    )
