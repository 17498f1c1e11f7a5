"""Parameters of an optimizer never get a gradient.

## What it does
Lists the parameters that require a gradient and are in an optimizer, and that no backward pass of the run reached, while others of the same network were reached.

## Why
An optimizer skips a parameter without a gradient, silently.
The layer keeps its random initial weights for the whole training: it was built but is never called, its output is not used in the loss, or `detach()`, `.data`, `no_grad` or a rounding cuts it off.
With `DistributedDataParallel` the same parameters stop the run.

## Fix
Use the layer's output in the loss, remove what cuts the graph, or delete the layer.
Where it is meant to stay as it is, say so: `requires_grad_(False)`.

## When to ignore
When the part is trained later, or only by some batches (experts of a mixture, heads of several tasks).

## References
- PyTorch, "Autograd mechanics"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.rule import Rule
from preflight.check.run import Run, seen
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.profile import ParameterSeen

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
encoder, decoder = torch.nn.Linear(8, 4).cuda(), torch.nn.Linear(4, 8).cuda()
model = torch.nn.Sequential(encoder, decoder)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
class Both(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
    def forward(self, x):
        return self.decoder(self.encoder(x).detach())
both = Both()
for _ in range(4):
    optimizer.zero_grad()
    both(torch.randn(4, 8).cuda()).square().mean().backward()
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
    for network in sorted(run.trained):
        parameters = run.parameters(network)
        missing = [p for p in parameters if p.trainable and p.optimizers and not p.gradients]
        if not missing:
            continue
        optimizer = run.optimizers[missing[0].optimizers[0]]
        yield run.finding(
            RULE,
            optimizer.line,
            f"{len(missing)} of {len(parameters)} parameters get no gradient in any of {run.profile.backwards} backward passes "
            f"and stay as they were initialised: {_named(missing)}",
            evidence=[
                seen("elements without a gradient", sum(_elements(p) for p in missing)),
                seen("elements of the network", sum(_elements(p) for p in parameters)),
                seen("backward passes", run.profile.backwards),
            ],
            fix=Fix(
                title="use these layers in the loss, or freeze or delete them",
                instruction="look at forward() for what is not called, detached or under no_grad; where that is meant, "
                "requires_grad_(False)",
                expected="every parameter of the optimizer is trained",
            ),
        )


def _named(parameters: list[ParameterSeen]) -> str:
    names = [p.name for p in parameters[:4]]
    return ", ".join(names) + (f" and {len(parameters) - 4} more" if len(parameters) > 4 else "")


def _elements(parameter: ParameterSeen) -> int:
    count = 1
    for size in parameter.shape:
        count *= size
    return count
