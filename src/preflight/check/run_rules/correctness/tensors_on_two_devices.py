"""An operation gets tensors of two devices.

## What it does
Explains the exception "Expected all tensors to be on the same device" outside of a module and of a loss: names the tensors of the statement, where each of them is, and which operation made it.

## Why
PyTorch does not move tensors by itself.
An operation on one tensor of the CPU and one of the GPU stops the run, unless the one on the CPU is a single number.

## Fix
Move the one that is on the CPU, once, where it is made: `.to(device)`, or `device=` where a function makes it.

## When to ignore
Never: the run stops.

## References
- PyTorch documentation, "CUDA semantics"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.refused import Refused
from preflight.check.observed.run import Run
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="tensors-on-two-devices",
    code="DEV003",
    severity="error",
    confidence="certain",
    layer="V",
    tags=("device", "dry-run"),
)

BAD = (
    """
import torch
net = torch.nn.Linear(8, 8).cuda()
target = torch.zeros(4, 8)
loss = (net(torch.randn(4, 8).cuda()) - target).square().mean()
loss.backward()
""",
    """
import torch
net = torch.nn.Linear(8, 3).cuda()
weights = torch.linspace(0, 1, 3)
def score(out):
    return (out.softmax(-1) * weights).sum()
score(net(torch.randn(4, 8, device="cuda"))).backward()
""",
    """
import torch
net = torch.nn.Linear(8, 3).cuda()
parts = [net(torch.randn(4, 8).cuda()) for _ in range(2)]
parts.append(torch.zeros(4, 3))
torch.stack(parts).sum().backward()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = (net(torch.randn(4, 8).cuda()) * torch.tensor(0.5)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look for the exception of two devices outside of modules and losses."""
    refused = Refused.of(run)
    if refused is None or not refused.says("on the same device") or refused.module or refused.is_loss:
        return
    left = list(dict.fromkeys(t["name"] for t in refused.named if t["device"] == "cpu"))
    what = " and ".join(left[:3]) or "one operand"
    yield run.finding(
        RULE,
        refused.line,
        f"{what} {'are' if len(left) > 1 else 'is'} on the CPU and the other operand on the GPU: the run stops here",
        evidence=refused.evidence(),
        fix=Fix(
            title="put both on one device",
            instruction=f"move {what} with .to(device) where it is made",
            expected="both operands are on the GPU",
        ),
        related=refused.sources(),
    )
