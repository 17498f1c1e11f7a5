"""A weight gets a gradient that is always zero.

## What it does
Looks at the gradients of the first steps, computed with real numbers on the CPU, and lists the weights whose gradient is zero in every element in all of them.
Before the last of these steps every weight is moved a little, so that what begins at zero on purpose (a residual branch, the second matrix of a LoRA) does not count.

## Why
Unlike a parameter without a gradient, such a weight looks trained: the optimizer has a state for it, and weight decay changes it.
But nothing that it does reaches the loss: its output is multiplied by zero, rounded, sent through a function that is flat there, or masked; the state of a recurrent layer that is always the initial zero has the same effect on its recurrent weights.

## Fix
Follow the layer's output to the loss, and look for `round`, `sign`, `argmax`, comparisons, `clamp` at its limit, ReLUs that are never positive, factors that are zero.

## When to ignore
When the part waits for samples that did not occur in these few steps.

## References
- Lu et al., "Dying ReLU and Initialization: Theory and Numerical Examples" (2019)
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.probed import invented, probe_of, setting
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.probe import ZeroGradient

RULE = Rule(
    name="gradient-always-zero",
    code="AUT007",
    severity="warning",
    confidence="likely",
    layer="V",
    tags=("autograd", "dry-run", "probe"),
)

BAD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.RNN(16, 32, batch_first=True), nn.Linear(32, 4)
    def forward(self, x):
        steps = [self.rnn(x[:, t : t + 1])[0] for t in range(x.size(1))]
        return self.head(torch.cat(steps, 1).mean(1))
net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for step in range(10):
    loss = nn.functional.cross_entropy(net(torch.randn(8, 5, 16).cuda()), torch.randint(0, 4, (8,)).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.body, self.head = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 1)
    def forward(self, x):
        open_ = torch.round(torch.sigmoid(self.gate(x)))
        return self.head(open_ * self.body(x))
net = Gate().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    loss = net(torch.randn(8, 16, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
body = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
nn.init.constant_(body[2].bias, -50.0)
net = nn.ModuleDict({"body": body, "skip": nn.Linear(16, 16), "head": nn.Linear(16, 1)}).cuda()
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net
    def forward(self, x):
        return self.net["head"](self.net["body"](x) + self.net["skip"](x))
model = Both()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(10):
    loss = (model(torch.randn(8, 16).cuda()) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
class Adapter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up, self.scale = nn.Linear(16, 4), nn.Linear(4, 16), nn.Parameter(torch.zeros(16))
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)
    def forward(self, x):
        return x + self.scale * self.up(self.down(x))
net = nn.Sequential(nn.Linear(16, 16), Adapter(), nn.Linear(16, 1)).cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for step in range(10):
    loss = (net(torch.randn(8, 16).cuda()) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    loss = nn.functional.cross_entropy(net(torch.randn(8, 3, 8, 8).cuda()), torch.randint(0, 5, (8,)).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find weights whose gradient is zero in every element at every step."""
    probe = probe_of(run)
    if probe is None or probe.broken is not None or any(loss.classes == 1 for loss in probe.losses):
        return  # a rule of its own says why
    found = [entry for entry in probe.gradients.zero if entry.shaken and not entry.name.endswith("bias")]
    if not found:
        return
    places: dict[str, list[ZeroGradient]] = {}
    for entry in found:
        places.setdefault(entry.line, []).append(entry)
    for line, entries in places.items():
        names = ", ".join(entry.name for entry in entries[:4]) + (
            f" and {len(entries) - 4} more" if entries[4:] else ""
        )
        every = probe.gradients.zeros == probe.gradients.parameters
        yield run.finding(
            RULE,
            line,
            "the gradients of all weights are zero: nothing that the network does changes the loss"
            if every
            else f"the gradient of {names} is zero in every element at every step: it never learns",
            evidence=[
                seen("weights whose gradient is always zero", len(found)),
                seen("parameters with a gradient", probe.gradients.parameters),
                setting(probe),
            ],
            fix=Fix(
                title="find where the way from this weight to the loss is flat",
                instruction="look for rounding, comparisons, dead ReLUs, factors of zero and states that stay at zero behind it",
                expected="the gradient is not zero",
            ),
            confidence="possible" if invented(probe) else None,
        )
        if every:
            return
