"""Sees steps on gradients that another optimizer has just used."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import plain_updates
from preflight.check.rules.correctness.two_optimizers_for_the_same_parameters import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)).cuda()
optimizers = [torch.optim.Adam(part.parameters()) for part in (net, net[1])]
for _ in range(8):
    net.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    for optimizer in optimizers:
        optimizer.step()
""",
    """
import torch
class Trainer:
    def __init__(self, net):
        self.net = net
        self.made = {}
    def optimizer(self, name):
        if name not in self.made:
            self.made[name] = torch.optim.SGD(self.net.parameters(), lr=0.1)
        return self.made[name]
    def update(self, x):
        self.net.zero_grad()
        self.net(x).sum().backward()
        self.optimizer("main").step()
        self.optimizer("Main").step()
trainer = Trainer(torch.nn.Linear(8, 2).cuda())
for _ in range(8):
    trainer.update(torch.randn(4, 8, device="cuda"))
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
fast = torch.optim.Adam(net.parameters())
slow = torch.optim.SGD((p for p in net.parameters() if p.dim() > 1), lr=1e-3)
def finish(*optimizers):
    for optimizer in optimizers:
        optimizer.step()
    for optimizer in optimizers:
        optimizer.zero_grad()
for _ in range(8):
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    finish(fast, slow)
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
one = torch.optim.SGD([p for p in net.parameters() if p.dim() > 1], lr=0.1)
two = torch.optim.Adam([p for p in net.parameters() if p.dim() < 2])
for _ in range(8):
    net.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    one.step()
    two.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
one, two = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.Adam(net.parameters())
for number in range(8):
    optimizer = one if number % 2 else two
    optimizer.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find optimizers that step, again and again, on gradients that another one has used."""
    for _, optimizer, steps in plain_updates(run):
        shared = [item for item in steps if item.data["shared"]]
        if len(shared) < 2:
            continue
        last = shared[-1]
        other = run.optimizers[last.data["other"]]
        yield run.finding(
            RULE,
            last.line,
            f"{optimizer.kind} steps on {last.data['shared']} gradients that {other.kind} has just used: each is applied twice",
            evidence=[
                seen("steps on gradients that were used", len(shared)),
                seen("parameters of this optimizer", optimizer.parameters),
                seen("parameters of the other", other.parameters),
            ],
            fix=Fix(
                title="keep one optimizer for each parameter",
                instruction="give each optimizer its own part of the model, or remove one of them",
                expected="each gradient is applied once",
            ),
            related=[(optimizer.line, "this optimizer is made here"), (other.line, "the other is made here")],
        )
