"""A module is in the network and in the optimizer, and is never called.

## What it does
Finds modules of a trained network that no call of the run reached, in training or evaluation, and whose parameters are in an optimizer that steps and never get a gradient.

## Why
An optimizer skips a parameter without a gradient, silently.
The layer was built, takes memory, is saved with the checkpoint, and has no part in what the network computes: it was forgotten in `forward`, or another one is called in its place.
With `DistributedDataParallel` such parameters stop the run.

## Fix
Call it in `forward`, or delete it.

## When to ignore
When the part is trained later, or only by some batches (experts of a mixture, heads of several tasks), or is there only so that a checkpoint can be loaded.

## References
- PyTorch documentation of torch.nn.Module
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.modules import SMALL, never_called
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import elements, named
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import ParameterSeen

RULE = Rule(
    name="module-never-called",
    code="MOD015",
    severity="warning",
    confidence="likely",
    layer="V",
    tags=("modules", "autograd", "dry-run"),
)

BAD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.spare = nn.Linear(8, 8), nn.Linear(8, 2), nn.Linear(8, 2)
    def forward(self, x):
        return self.head(self.body(x))
net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, branches):
        super().__init__()
        self.branches = nn.ModuleDict({name: nn.Linear(8, 8) for name in branches})
    def forward(self, x):
        return sum(self.branches[name](x) for name in ("a", "b"))
net = Net("abc").cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(4, 8).cuda()).square().mean().backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.fc1, self.fc2 = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x):
        x = x + self.fc1(self.norm1(x))
        return x + self.fc2(self.norm1(x))
def train(net):
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        net(torch.randn(4, 8, device="cuda")).sum().backward()
        optimizer.step()
train(Block().to("cuda"))
""",
)

GOOD = (
    """
import torch
from torch import nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(10, 8), nn.Linear(8, 10, bias=False)
        self.spare = nn.Linear(8, 8).requires_grad_(False)
    def forward(self, x):
        return F.linear(self.embed(x), self.head.weight)
net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randint(10, (4, 8), device="cuda")).sum().backward()
    optimizer.step()
""",
    """
import torch
a, b = torch.nn.Linear(8, 8).cuda(), torch.nn.Linear(8, 8).cuda()
both = torch.nn.ModuleList([a, b])
optimizer = torch.optim.SGD(both.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    both[step % 2](torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find modules that are in vain in a network, those of one line together."""
    by_line: dict[tuple[int, str], list[tuple[str, list[ParameterSeen]]]] = {}
    for network, module, parameters in never_called(run):
        optimizer = run.optimizers[parameters[0].optimizers[0]]
        by_line.setdefault((network, module.line or optimizer.line), []).append((module.path, parameters))
    for (network, line), found in by_line.items():
        inside = [p for _, parameters in found for p in parameters]
        whole = run.parameters(network)
        names = ", ".join(path for path, _ in found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")
        optimizer = run.optimizers[inside[0].optimizers[0]]
        share = elements(inside) / max(1, elements(whole))
        yield run.finding(
            RULE,
            line,
            f"{names} {'is' if len(found) == 1 else 'are'} never called in any of {run.profile.backwards} forward and backward "
            f"passes: {len(inside)} parameters in the optimizer stay as they were initialised",
            evidence=[
                seen("parameters", named(inside)),
                seen("elements that are never trained", elements(inside)),
                seen("share of the network", round(share, 3)),
            ],
            fix=Fix(
                title="call it in forward, or delete it",
                instruction="look in forward() for the call that was forgotten, or for another layer in its place",
                expected="every module of the network takes part in what it computes",
            ),
            related=[(optimizer.line, "the optimizer has its parameters")],
            severity="info" if share < SMALL else None,
        )
