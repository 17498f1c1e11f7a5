"""A module runs with gradients on, and its output never reaches the loss.

## What it does
Finds a module, or a whole network, that is called with gradients recorded, whose parameters are in an optimizer that steps, and whose output requires a gradient, while no backward pass ever comes back to it and others are reached.

## Why
The work of the forward pass is done and nothing is learned from it: between the module and the loss the graph is cut, by `detach()`, `.data`, `.item()`, NumPy, `argmax` or a rounding, or the output is computed and not used.
The parameters keep their random initial values, and no error says so.

## Fix
Remove what cuts the graph between this module and the loss, or use its output there.
Where it is meant to stay as it is, call it under `torch.no_grad()` and leave it out of the optimizer.

## When to ignore
When the output is only used in some batches, or is a by-product of a library's model (a pooler) that costs little.

## References
- PyTorch, "Autograd mechanics"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.graph import cut_off
from preflight.check.observed.modules import SMALL
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import elements
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="trained-module-detached",
    code="AUT004",
    severity="warning",
    confidence="likely",
    layer="V",
    tags=("autograd", "dry-run"),
)

BAD = (
    """
import torch
encoder, decoder = torch.nn.Linear(8, 4).cuda(), torch.nn.Linear(4, 8).cuda()
opt = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
def compress(x):
    return encoder(x).data
for _ in range(4):
    opt.zero_grad()
    decoder(compress(torch.randn(4, 8).cuda())).square().mean().backward()
    opt.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
        self.table = nn.Embedding(3, 8)
    def forward(self, x):
        return self.table(self.score(x).argmax(-1))
net = Net().cuda()
opt = torch.optim.AdamW(net.parameters())
for _ in range(4):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    opt.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.gate, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)
    def forward(self, x):
        gate = torch.tensor(self.gate(x).mean().item(), device=x.device)
        return self.head(self.body(x) * gate)
net = Net().cuda()
opt = torch.optim.Adam(net.parameters())
for _ in range(4):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
maker, judge = torch.nn.Linear(4, 8).cuda(), torch.nn.Linear(8, 1).cuda()
one, two = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
for step in range(20):
    two.zero_grad()
    judge(maker(torch.randn(4, 4, device="cuda")).detach()).mean().backward()
    two.step()
    if step % 5 == 4:
        one.zero_grad()
        judge(maker(torch.randn(4, 4, device="cuda"))).mean().neg().backward()
        one.step()
""",
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
opt = torch.optim.Adam(net.parameters())
for _ in range(4):  # the spare head is never called: that is another rule
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    opt.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find modules and networks that the gradient does not come back to."""
    for network, module, parameters in cut_off(run):
        optimizer = run.optimizers[parameters[0].optimizers[0]]
        whole = network not in run.trained
        name = module.kind if module.path == module.kind else f"{module.path} ({module.kind})"
        yield run.finding(
            RULE,
            optimizer.line,
            f"{name} was called {module.graph_calls} times with gradients on and no gradient ever came back to its "
            f"{len(parameters)} parameters: its output is cut off from the loss, or not used",
            evidence=[
                seen("calls with gradients on", module.graph_calls),
                seen("backward passes", run.profile.backwards),
                seen("elements without a gradient", elements(parameters)),
            ],
            fix=Fix(
                title="let its output reach the loss",
                instruction="look behind the call for detach(), .data, item(), numpy(), argmax or rounding, or an output that is not "
                "used; where that is meant, call it under no_grad and leave it out of the optimizer",
                expected="its parameters get gradients",
            ),
            severity="error"
            if whole
            else "info"
            if elements(parameters) < SMALL * elements(run.parameters(network))
            else None,
        )
