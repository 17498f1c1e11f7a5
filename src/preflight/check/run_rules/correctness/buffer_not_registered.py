"""Sees a forward pass stop at a tensor that the module keeps as a plain attribute, and that was left on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.modules import left_attribute
from preflight.check.observed.refused import Refused
from preflight.check.observed.run import Run
from preflight.check.rules.correctness.buffer_not_registered import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.scale = {"a": torch.ones(8)}["a"]
    def forward(self, x):
        return self.fc(x) * self.scale
net = Net().cuda()
net(torch.randn(4, 8).cuda()).sum().backward()
""",
    """
import torch
from torch import nn
def positions(length, width):
    return torch.outer(torch.arange(length), torch.ones(width))
class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 8)
        vars(self)["places"] = positions(16, 8)
    def forward(self, ids):
        return self.table(ids) + self.places[: ids.size(1)]
net = nn.Sequential(Embed(), nn.Linear(8, 2)).to("cuda")
net(torch.randint(10, (4, 16)).cuda()).sum().backward()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def setup(self, **tensors):
        for name, tensor in tensors.items():
            setattr(self, name, tensor)
        return self
    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight)
net = Net().setup(weight=torch.ones(2, 8)).cuda()
net(torch.randn(4, 8, device="cuda", requires_grad=True)).sum().backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.mask = nn.Linear(8, 8), torch.ones(8)
        self.register_buffer("scale", torch.ones(8))
    def forward(self, x):
        return self.fc(x) * self.scale * self.mask.to(x.device)
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(4, 8).cuda()).sum().backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look for the exception of two devices below a module that names an attribute of its own."""
    refused = Refused.of(run)
    if refused is None or not refused.says("on the same device") or not refused.module:
        return
    left = left_attribute(refused)
    if left is None:
        return
    yield run.finding(
        RULE,
        refused.line,
        f"{left['name']} is a plain attribute of {refused.where}: to() left it on the CPU, and the run stops here",
        evidence=refused.evidence(),
        fix=Fix(
            title="register it as a buffer",
            instruction=f"self.register_buffer({left['name'].removeprefix('self.')!r}, ...) where it is made",
            expected="it moves with the module, and is saved with it",
        ),
        related=refused.sources(),
        severity="error",
        confidence="certain",
    )
