"""Sees an optimizer that steps before the first backward pass of all, at the place where it steps each time."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import plain_updates
from preflight.check.rules.correctness.step_before_backward import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def train(x):
    opt.zero_grad()
    loss = net(x).square().mean()
    opt.step()
    loss.backward()
for _ in range(8):
    train(torch.randn(4, 8, device="cuda"))
""",
    """
import torch
class Trainer:
    def __init__(self, net):
        self.net, self.opt = net.cuda(), torch.optim.Adam(net.parameters())
        self.calls = [self.step, self.clear, self.learn]
    def step(self, x):
        self.opt.step()
    def clear(self, x):
        self.net.zero_grad()
    def learn(self, x):
        self.net(x).sum().backward()
trainer = Trainer(torch.nn.Linear(8, 2))
for _ in range(8):
    x = torch.randn(4, 8, device="cuda")
    for call in trainer.calls:
        call(x)
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def update(loss, order=("step", "zero_grad")):
    for name in order:
        getattr(opt, name)()
    loss.backward()
for _ in range(8):
    update(net(torch.randn(4, 8, device="cuda")).square().mean())
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
opt.step()  # makes the state before training
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    opt.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.LBFGS(net.parameters(), max_iter=2)
x = torch.randn(4, 8, device="cuda")
def closure():
    opt.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    return loss
for _ in range(8):
    opt.step(closure)
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find optimizers whose first step comes before all gradients, while each later one finds those of the pass before."""
    first = next((item for item in run.seen("backward")), None)
    for _, optimizer, steps in plain_updates(run):
        begin, later = steps[0], steps[1:]
        if (
            first is None
            or begin.order > first.order
            or any(item.data["closure"] or item.line != begin.line for item in steps)
        ):
            continue
        if not all(item.data["fed"] for item in later):
            continue
        late = all(item.data["live"] for item in later)
        if not late and any(item.data["live"] for item in later):
            continue
        yield run.finding(
            RULE,
            begin.line,
            f"{optimizer.kind} steps before backward(): "
            + (
                "each update uses the gradients of the batch before, and the first does nothing"
                if late
                else "what backward() computed was cleared in all steps, and nothing is learned"
            ),
            evidence=[
                seen("backward passes before the first step", 0),
                seen("gradients at the last step", later[-1].data["live"]),
                seen("optimizer steps", len(steps)),
            ],
            fix=Fix(
                title="step after backward()",
                instruction="order each pass: clear, forward, backward(), step()",
                expected="each step uses the gradient of its own batch",
            ),
            related=[(first.line, "gradients are computed here")],
            severity="warning" if late else None,
        )
