"""Sees a forward pass stop because one tensor is on the CPU and another on the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.modules import kept_apart, left_attribute
from preflight.check.observed.refused import Refused, described
from preflight.check.observed.run import Run
from preflight.check.rules.correctness.tensor_on_cpu_in_forward import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        scale = {"a": torch.ones(8)}["a"]
        return self.fc(x) * scale
net = Net().cuda()
net(torch.randn(4, 8).cuda()).sum().backward()
""",
    """
import torch
from torch import nn
def noise(like):
    return getattr(torch, "randn")(like.shape)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        h = self.fc(x)
        return torch.cat([h, noise(h)], dim=-1)
net = Net().to("cuda")
for _ in range(3):
    net(torch.randn(4, 8, device="cuda")).sum().backward()
""",
    """
import torch
from torch import nn
last = nn.Linear(8, 2)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
    def forward(self, x):
        return last(self.norm(x))
net = Net().cuda()
net(torch.randn(4, 8).cuda()).sum().backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.mask = torch.ones(8)
    def forward(self, x):
        return self.fc(x) * self.mask.to(x.device) + torch.tensor(1.0)
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(4, 8).cuda()).sum().backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look for the exception of two devices below a module's forward."""
    refused = Refused.of(run)
    if refused is None or not refused.says("on the same device") or not refused.module:
        return
    if refused.is_loss:
        return
    left = [t for t in refused.own if t["device"] == "cpu"]
    given = [t for t in (*refused.named, *refused.inputs) if t["device"] == "cpu"]
    if left_attribute(refused) is not None:
        return  # an attribute that is no buffer: a rule of its own tells of it
    if left and not given and kept_apart(run):
        return  # layers in a plain list: a rule of its own tells of them
    if left and not given:
        what = f"the weights of {refused.where} are on the CPU, and its input is on the GPU"
        how = (
            "register the module (nn.ModuleList, nn.ModuleDict, an attribute), so that to() moves it, or move it itself"
        )
    else:
        name = given[0]["name"] if given else "a tensor"
        what = f"{name} is on the CPU where {refused.where} works on the GPU"
        how = (
            f"make it on the device of the other tensor (device=x.device), or register it with register_buffer: {name}"
        )
    yield run.finding(
        RULE,
        refused.line,
        f"{what}: the run stops here",
        evidence=refused.evidence(),
        fix=Fix(
            title="put both on one device",
            instruction=how,
            expected=f"the operator gets {described({**given[0], 'device': 'cuda'})}" if given else "one device",
        ),
        related=refused.sources(),
        confidence="certain",
    )
