"""Sees the error of an in-place operation on a parameter while gradients are recorded."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.in_place_on_leaf import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True


BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
def decay(model, rate):
    for p in model.parameters():
        p.mul_(1 - rate)
for _ in range(8):
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    decay(net, 0.1)
""",
    """
import torch
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(2, 8))
    def reset(self):
        self.weight[0] = 1.0
layer = Layer().to("cuda")
layer.reset()
""",
    """
import torch
weights = [torch.zeros(8, device="cuda", requires_grad=True) for _ in range(2)]
for _ in range(8):
    (torch.randn(8, device="cuda") * weights[0] * weights[1]).sum().backward()
    for number in range(len(weights)):
        weights[number] -= 0.1 * weights[number].grad
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
for _ in range(8):
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
            p.grad = None
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Explain the exception."""
    if not run.raised("leaf variable that requires grad", "in-place"):
        return
    yield run.finding(
        RULE,
        run.raised_at,
        "a parameter is changed in place while gradients are recorded, and PyTorch raises an error",
        evidence=[seen("error", run.profile.message or "")],
        fix=Fix(
            title="change it under torch.no_grad()",
            instruction="put the update into with torch.no_grad():",
            expected="the update is done",
        ),
        confidence="certain",
    )
