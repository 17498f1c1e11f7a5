"""Sees layers that learn run inside of a network that does not know them, because a plain container holds them."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.modules import kept_apart
from preflight.check.observed.refused import Refused
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.layers_in_plain_container import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import torch
from torch import nn
def tower(depth):
    return [nn.Linear(8, 8, device="cuda") for _ in range(depth)]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower, self.head = tower(3), nn.Linear(8, 2)
    def forward(self, x):
        for layer in self.tower:
            x = layer(x).relu()
        return self.head(x)
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
    def __init__(self, names):
        super().__init__()
        self.embed = nn.Linear(8, 8)
        setattr(self, "heads", {name: nn.Linear(8, 2).cuda() for name in names})
    def forward(self, x):
        x = self.embed(x)
        return sum(getattr(self, "heads")[name](x) for name in ("a", "b"))
net = Net("ab").cuda()
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
        self.steps = tuple(make() for make in (lambda: nn.Linear(8, 8), nn.ReLU, lambda: nn.Linear(8, 8)))
    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return x
net = nn.Sequential(nn.Linear(8, 8), Block(), nn.Linear(8, 2)).to("cuda")
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(4):  # stops in the first step: the layers stayed on the CPU
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
        self.order = []
        for at in range(3):
            layer = nn.Linear(8, 8)
            self.add_module(f"layer{at}", layer)
            self.order.append(layer)
    def forward(self, x):
        for layer in self.order:
            x = layer(x)
        return x
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
class Perceptual(nn.Module):
    def __init__(self, frozen):
        super().__init__()
        self.hidden, self.scale = [frozen.requires_grad_(False)], nn.Linear(4, 1)
    def forward(self, x, y):
        return self.scale((self.hidden[0](x) - self.hidden[0](y)).square()).mean()
net, loss = nn.Linear(8, 8).cuda(), Perceptual(nn.Linear(8, 4).cuda()).cuda()
optimizer = torch.optim.Adam([*net.parameters(), *loss.parameters()])
for _ in range(4):
    x = torch.randn(4, 8, device="cuda")
    optimizer.zero_grad()
    loss(net(x), x).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.teacher = nn.Linear(8, 4), (nn.Linear(8, 4).cuda(),)
    def forward(self, x):
        with torch.no_grad():
            wanted = self.teacher[0](x)
        return (self.net(x) - wanted).square().mean()
student = Student().cuda()
optimizer = torch.optim.Adam(student.parameters())
for _ in range(4):
    optimizer.zero_grad()
    student(torch.randn(4, 8, device="cuda")).backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find layers that plain containers hold: by container, whether they ran to no effect or stopped the run."""
    refused = Refused.of(run)
    stopped = refused is not None and refused.says("on the same device")
    if not run.complete and not stopped:
        return
    for keeper, modules in kept_apart(run).items():
        first, elements = modules[0], sum(m.learning for m in modules)
        effect = (
            "they stay on the CPU when the network moves, and the run stops here"
            if stopped
            else "no optimizer has them, and no checkpoint will"
        )
        yield run.finding(
            RULE,
            first.line,
            f"{len(modules)} layers with {elements} parameters are in {keeper}, a plain container, and in no network: {effect}",
            evidence=[
                seen("layers", ", ".join(dict.fromkeys(m.kind for m in modules))),
                seen("parameters that nothing knows of", elements),
                seen("calls with gradients on", sum(m.graph_calls for m in modules)),
            ],
            fix=Fix(
                title="let the network know its layers",
                instruction="hold them in nn.ModuleList or nn.ModuleDict",
                expected="parameters(), to() and state_dict() see them",
            ),
            related=[(refused.line, "the run stops here")] if refused is not None and stopped else (),
            confidence="certain" if stopped else "likely",
        )
