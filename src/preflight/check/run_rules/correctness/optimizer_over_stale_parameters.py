"""Sees an optimizer none of whose parameters belongs to what is called, while what is called is in no optimizer."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import held_by, plain_updates
from preflight.check.rules.correctness.optimizer_over_stale_parameters import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import copy, torch
net = torch.nn.Linear(8, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def ready(model):
    return copy.deepcopy(model).cuda()
net = ready(net)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    net.zero_grad()
    opt.step()
""",
    """
import torch
class Trainer:
    def __init__(self):
        self.build()
        self.opt = torch.optim.AdamW(self.net.parameters())
        self.build()
    def build(self):
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)).to("cuda")
    def fit(self):
        for _ in range(8):
            self.net.zero_grad()
            self.net(torch.randn(4, 8).cuda()).square().mean().backward()
            self.opt.step()
Trainer().fit()
""",
    """
import torch
nets = [torch.nn.Linear(8, 2).cuda() for _ in range(2)]
opt = torch.optim.Adam(nets[0].parameters())
for _ in range(8):
    nets[-1].zero_grad()
    nets[-1](torch.randn(4, 8, device="cuda")).sum().backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
a, b = torch.nn.Linear(8, 2).cuda(), torch.nn.Linear(8, 2).cuda()
one, two = torch.optim.Adam(a.parameters()), torch.optim.Adam(b.parameters())
for _ in range(8):  # the second network comes in later
    one.zero_grad()
    a(torch.randn(4, 8, device="cuda")).sum().backward()
    one.step()
    two.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
master = [torch.nn.Parameter(p.detach().clone().float()) for p in net.parameters()]
opt = torch.optim.SGD(master, lr=0.1)
for _ in range(8):
    net.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    for copy, p in zip(master, net.parameters()):
        copy.grad = p.grad.clone()
    opt.step()
    with torch.no_grad():
        for copy, p in zip(master, net.parameters()):
            p.copy_(copy)
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find optimizers that never find a gradient, over parameters of no network, beside a network without an optimizer."""
    for number, optimizer, steps in plain_updates(run):
        held = held_by(run, number)
        if any(item.data["fed"] or item.data["frozen"] for item in steps) or not held:
            continue
        if any(p.network is not None or p.gradients for p in held):
            continue
        instead = [p for p in run.profile.parameters if p.gradients > 1 and not p.optimizers and not p.written]
        networks = [p.network for p in instead if p.network is not None]
        if not networks:
            continue
        kind = next((m.kind for m in run.modules(networks[0])), "another network")
        yield run.finding(
            RULE,
            optimizer.line,
            f"none of the {optimizer.parameters} parameters of {optimizer.kind} belongs to what is trained: the gradients go to "
            f"{len(instead)} parameters of {kind}, which no optimizer holds",
            evidence=[
                seen("steps", len(steps)),
                seen("gradients found in them", 0),
                seen("parameters with gradients and without an optimizer", len(instead)),
            ],
            fix=Fix(
                title="make the optimizer from the model that is trained",
                instruction="make the optimizer after the model was made, copied and wrapped for the last time",
                expected="the weights that are trained are updated",
            ),
            related=[(steps[0].line, "the optimizer steps here")],
            confidence="certain",
        )
