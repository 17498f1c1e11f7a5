"""Sees each forward pass make new layers."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.layer_made_in_forward import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import torch
from torch import nn
def project(x, size):
    return nn.Linear(x.size(-1), size).to(x.device)(x)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
    def forward(self, x):
        return project(self.body(x), 2)
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
makers = {"norm": lambda n: nn.LayerNorm(n, device="cuda")}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
    def forward(self, x):
        for name in makers:
            x = makers[name](8)(self.body(x))
        return x
net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
    def regularised(self, x):
        return getattr(nn, "Dropout")(0.5)(x)
    def forward(self, x):
        return self.regularised(self.body(x))
net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), None
    def forward(self, x):
        x = self.body(x)
        if self.head is None:
            self.head = nn.Linear(x.size(-1), 2, device=x.device)
        return nn.ReLU()(self.head(x))
net = Net().cuda()
net(torch.randn(1, 8, device="cuda"))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.LazyLinear(8)
    def forward(self, x):
        with torch.no_grad():
            noise = nn.Linear(8, 8, device="cuda")(x)
        return nn.Flatten()(self.body(x + noise))
net = Net().cuda()
net(torch.randn(1, 8, device="cuda"))
optimizer = torch.optim.Adam(net.parameters())
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find lines that make a layer anew in the forward pass of two steps or more."""
    by_line: dict[str, list[int]] = {}
    made = run.seen("layer made in forward")
    for item in made:
        by_line.setdefault(item.line, []).append(item.step)
    for line, steps in by_line.items():
        if len(set(steps)) < 2:
            continue
        item = next(i for i in made if i.line == line)
        kind, elements = item.data["kind"], item.data["elements"]
        harm = (
            f"its {elements} parameters are drawn anew in each step and are in no optimizer"
            if elements
            else "it is in train mode for ever, and evaluation drops activations too"
        )
        yield run.finding(
            RULE,
            line,
            f"the forward pass of {item.data['within']} makes a new {kind} each time: {harm}",
            evidence=[
                seen("layers made here", sum(i.count for i in made if i.line == line)),
                seen("steps in which they were made", len(set(steps))),
                seen("parameters of each", elements),
            ],
            fix=Fix(
                title="make the layer once",
                instruction="make it in __init__, keep it as an attribute and call that in forward",
                expected="its parameters are trained and saved" if elements else "eval() switches it off",
            ),
        )
