"""Sees a log-soft-max whose input comes from a soft-max."""

from __future__ import annotations

import math
from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.origins import first_of_each, origin
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.softmax_before_cross_entropy import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import Observation

BAD = (
    """
import torch
from torch import nn
layers = {"softmax": nn.Softmax, "relu": nn.ReLU}
def build(names):
    return nn.Sequential(nn.Linear(8, 10), *[layers[n](**o) for n, o in names])
net = build([("softmax", {"dim": 1})]).cuda()
loss_of = getattr(nn, "CrossEntropy" + "Loss")()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    loss_of(net(torch.randn(4, 8).cuda()), torch.randint(10, (4,)).cuda()).backward()
    optimizer.step()
""",
    """
import torch
import torch.nn.functional as F
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 5)
    def forward(self, x):
        return {"out": torch.exp(self.fc(x)) / torch.exp(self.fc(x)).sum(-1, keepdim=True), "p": self.fc(x).softmax(-1)}
class Trainer:
    key = "p"
    def __init__(self):
        self.net = Net().cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())
    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(x)[self.key].view(-1, 5), y)
        loss.backward()
        self.optimizer.step()
trainer = Trainer()
for _ in range(4):
    trainer.step(torch.randn(4, 8, device="cuda"), torch.zeros(4, dtype=torch.long, device="cuda"))
""",
    """
import torch
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 6, 1), nn.LogSoftmax(dim=1)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criteria = [nn.CrossEntropyLoss()]
for _ in range(4):
    optimizer.zero_grad()
    out = net(torch.randn(2, 3, 4, 4).cuda())
    sum(c(out, torch.zeros(2, 4, 4, dtype=torch.long).cuda()) for c in criteria).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
a, b = nn.Linear(8, 3).cuda(), nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    x, y = torch.randn(4, 8).cuda(), torch.zeros(4, dtype=torch.long).cuda()
    sum(nn.CrossEntropyLoss()(p, y) for p in (a(x), b(x).softmax(1))).backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.out = nn.Linear(8, 1), nn.Linear(8, 3)
    def forward(self, x):
        return self.out((self.score(x).softmax(1) * x).sum(1))
net = Attention().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    out = net(torch.randn(4, 6, 8).cuda())
    nn.functional.cross_entropy(out, torch.zeros(4, dtype=torch.long).cuda()).backward()
    optimizer.step()
    shown = out.softmax(-1)
""",
    """
import torch
from torch import nn
student, teacher = nn.Linear(8, 3).cuda(), nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(4):
    x = torch.randn(4, 8).cuda()
    optimizer.zero_grad()
    with torch.no_grad():
        target = teacher(x).softmax(-1)
    nn.functional.cross_entropy(student(x), target).backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look where the input of each log-soft-max of a training loss comes from."""
    lines = {item.line for item in run.seen("nll_loss")}
    for item in first_of_each([i for i in run.seen("log_softmax") if i.data["graph"] and _again(i, lines)]):
        name, line = origin(item)
        twice = name == "_softmax"
        classes = item.data["shape"][item.data["dim"]]
        evidence = [seen("operators before the loss", ", ".join(item.data["path"][:3]).replace("_", ""))]
        if twice and classes > 1:
            floor = math.log((math.e + classes - 1) / math.e)
            evidence.append(seen("lowest loss that can be reached", round(floor, 2)))
        message = (
            f"this loss applies log-soft-max itself, but its input already went through a soft-max over {classes} classes"
            if twice
            else "this loss applies log-soft-max itself, so the one before it is computed and stored for nothing"
        )
        yield run.finding(
            RULE,
            item.line,
            message,
            evidence=evidence,
            severity="error" if twice else "warning",
            confidence="certain",
            fix=Fix(
                title="give the logits to the loss",
                instruction=f"remove the {'soft-max' if twice else 'log-soft-max'}, or keep a log_softmax and use nll_loss",
                expected="the loss can reach zero" if twice else "one pass over the logits less",
            ),
            related=[(line, "the first one is here")] if line and line != item.line else (),
        )


def _again(item: Observation, losses: set[str]) -> bool:
    """Whether the input was normalised before."""
    name, line = origin(item)
    # Two logarithms may be meant where the second one is no loss: a mixture, a temperature.
    return name == "_softmax" or (name == "_log_softmax" and item.line in losses and line != item.line)


def disproves(run: Run, finding: Finding) -> bool:
    """Whether the loss at this place was seen, and what it got came from elsewhere."""
    losses = run.seen_at(finding.location, "log_softmax")
    return bool(losses) and all(origin(i)[0] not in ("", "_softmax", "_log_softmax") for i in losses)
