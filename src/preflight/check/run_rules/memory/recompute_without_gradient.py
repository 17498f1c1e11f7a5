"""Recomputed stretches of a network get no gradient.

## What it does
Finds calls of `torch.utils.checkpoint.checkpoint` in its re-entrant form, with gradients on, whose tensor arguments need no gradient.

## Why
The re-entrant form runs the stretch without recording it, and records it again in the backward pass, which comes to it only through an argument that needs a gradient.
Without one, the parameters inside get no gradient at all: PyTorch says so in one warning, and trains the rest.

## Fix
Pass `use_reentrant=False`, or make the input need a gradient (`model.enable_input_require_grads()` in Transformers).

## When to ignore
When everything inside the stretch is frozen on purpose.

## References
- PyTorch documentation, `torch.utils.checkpoint`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="recompute-without-gradient", code="MEM024", severity="error", layer="V", tags=("memory", "autograd", "dry-run")
)  # fmt: skip

_NET = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.Linear(8, 2)
    def forward(self, x):
        return self.head({call})
"""
_LOOP = """
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
"""

BAD = (
    _NET.format(call="checkpoint(self.body, x, use_reentrant=True)") + _LOOP,
    _NET.format(call="checkpoint(self.body.__call__, x.clone(), use_reentrant=True)") + _LOOP,
    _NET.format(call="torch.utils.checkpoint.checkpoint(lambda y: self.body(y), x * 2, use_reentrant=True)") + _LOOP,
)

GOOD = (
    _NET.format(call="checkpoint(self.body, x, use_reentrant=False)") + _LOOP,
    _NET.format(call="checkpoint(self.body, x.requires_grad_(), use_reentrant=True)") + _LOOP,
)


def observe(run: Run) -> Iterator[Finding]:
    """Find re-entrant recomputation whose arguments need no gradient, where trained parameters stay without one."""
    lost = [p for p in run.profile.parameters if p.trainable and p.optimizers and not p.gradients]
    calls = [item for item in run.seen("recompute") if item.data["reentrant"] and not item.data["gradient"]]
    if not lost or not calls:
        return
    first = calls[0]
    yield run.finding(
        RULE,
        first.line,
        "this recomputed stretch is entered with arguments that need no gradient, so that its parameters get none: "
        f"{len(lost)} of {len(run.profile.parameters)} parameters were never reached, {lost[0].name} among them",
        evidence=[
            seen("calls whose arguments need no gradient", sum(item.count for item in calls)),
            seen("parameters without a gradient", len(lost)),
        ],
        fix=Fix(
            title="pass use_reentrant=False",
            instruction="checkpoint(function, ..., use_reentrant=False)",
            expected="the parameters inside get gradients again",
        ),
    )
