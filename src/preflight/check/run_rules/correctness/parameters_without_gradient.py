"""Parameters of an optimizer never get a gradient.

## What it does
Lists the parameters that require a gradient and are in an optimizer, and that no backward pass of the run reached, while others of the same network were reached.

## Why
An optimizer skips a parameter without a gradient, silently.
The layer keeps its random initial weights for the whole training: it is called only under `no_grad`, or the parameter is never used.
A module that is never called at all is told by `module-never-called`.
A layer that is called with gradients on and cut off behind is told by `trained-module-detached`.
With `DistributedDataParallel` the same parameters stop the run.

## Fix
Call the layer with gradients on and use its output in the loss, or delete it.
Where it is meant to stay as it is, say so: `requires_grad_(False)`.

## When to ignore
When the part is trained later, or only by some batches (experts of a mixture, heads of several tasks).

## References
- PyTorch, "Autograd mechanics"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.graph import cut_off
from preflight.check.observed.modules import never_called
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import elements, named
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import ParameterSeen

RULE = Rule(
    name="parameters-without-gradient",
    code="AUT003",
    severity="warning",
    confidence="likely",
    layer="V",
    tags=("autograd", "dry-run"),
)

BAD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 2)
        self.scale = nn.Parameter(torch.ones(8))
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
    def __init__(self, size):
        super().__init__()
        self.tables = nn.ParameterDict({name: nn.Parameter(torch.ones(size)) for name in ("a", "b", "c")})
    def forward(self, x):
        return sum(x * self.tables[name] for name in ("a", "b"))
net = Net(8).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(4, 8).cuda()).square().mean().backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 2)
    def forward(self, x):
        with torch.no_grad():
            x = self.first(x)
        return self.second(x)
def train(net):
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        net(torch.randn(4, 8, device="cuda")).sum().backward()
        optimizer.step()
train(Net().to("cuda"))
""",
)

GOOD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 2)
        self.body.requires_grad_(False)
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
a, b = torch.nn.Linear(8, 8).cuda(), torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    (a if step % 2 else b)(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find parameters that were never reached in a network that was."""
    if not run.complete:
        return
    cut = {id(p) for _, _, inside in [*cut_off(run), *never_called(run)] for p in inside}
    for network in sorted(run.trained):
        parameters = run.parameters(network)
        missing = [p for p in parameters if p.trainable and not p.gradients and id(p) not in cut and _stepped(run, p)]
        if not missing:
            continue
        optimizer = run.optimizers[missing[0].optimizers[0]]
        yield run.finding(
            RULE,
            optimizer.line,
            f"{len(missing)} of {len(parameters)} parameters get no gradient in any of {run.profile.backwards} backward passes "
            f"and stay as they were initialised: {named(missing)}",
            evidence=[
                seen("elements without a gradient", elements(missing)),
                seen("elements of the network", elements(parameters)),
                seen("backward passes", run.profile.backwards),
            ],
            fix=Fix(
                title="use these layers in the loss, or freeze or delete them",
                instruction="look at forward() for what is not called, detached or under no_grad; where that is meant, "
                "requires_grad_(False)",
                expected="every parameter of the optimizer is trained",
            ),
        )


def _stepped(run: Run, parameter: ParameterSeen) -> bool:
    return any(run.optimizers[at].steps > 1 for at in parameter.optimizers)
