"""A module copies tensors from the host to the GPU each time it is called.

## What it does
Finds copies from the host to the GPU that happen inside a module's forward, in every training step.

## Why
The host makes the tensor, waits for a pageable copy, and only then goes on: each call costs tens of microseconds in which the GPU runs dry.
A mask or a position table is the same in every call.

## Fix
Make it on the device of the input (`torch.arange(n, device=x.device)`), or register it once as a buffer.

## When to ignore
When the tensor depends on data that only the host has.

## References
- PyTorch documentation, "Performance Tuning Guide": create tensors directly on the target device
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.steps import in_every_step
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.quantity import format_bytes

RULE = Rule(
    name="copies-inside-forward", code="EFF028", severity="info", layer="V", tags=("gpu", "copies", "dry-run")
)  # fmt: skip

_NET = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.register_buffer("table", torch.arange(16.0), persistent=False)
    def forward(self, x):
        return self.layer(x) * {factor}
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(8, 16, device="cuda")).sum().backward()
    optimizer.step()
"""

BAD = (
    _NET.format(factor="torch.arange(16.0).to(x.device)"),
    _NET.format(factor="torch.tensor([0.5] * 16).cuda()"),
    _NET.format(factor="torch.linspace(0, 1, x.shape[1]).type_as(x)"),
)

GOOD = (
    _NET.format(factor="self.table"),
    _NET.format(factor="torch.arange(16.0, device=x.device)"),
)


def observe(run: Run) -> Iterator[Finding]:
    """Find the lines inside modules that copy to the GPU in every step."""
    copies = [i for i in run.seen("host to device") if i.module and i.phase == "forward"]
    for line, count in in_every_step(run, copies).items():
        mine = [i for i in copies if i.line == line and 1 <= i.step < run.profile.steps]
        size = sum(i.count * int(i.data["bytes"]) for i in mine) // max(1, run.profile.steps - 1)
        yield run.finding(
            RULE,
            line,
            f"{mine[0].module} copies {format_bytes(size)} from the host to the GPU in each step ({count} copies): the GPU "
            "waits while the host makes and sends them",
            evidence=[seen("copies per step", count), seen("copied per step", size, "bytes")],
            fix=Fix(
                title="make the tensor on the GPU",
                instruction="pass device=x.device to the function that makes it, or register it as a buffer in __init__",
                expected=f"{count} copies less in each step",
            ),
        )
