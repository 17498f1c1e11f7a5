"""Sees what a step leaves behind, who keeps it, and the step at which the GPU is full of it."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Evidence, Fix
from preflight.check.observed.growing import because, kept_at, made_at
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Example
from preflight.check.rules.memory.growth_exceeds_device import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.held import Growth
from preflight.vocabulary.memory import Oom
from preflight.vocabulary.quantity import format_bytes

BAD = (
    Example(
        """
import torch
model = torch.nn.Linear(1024, 50000).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for _ in range(10000):
    out = model(torch.randn(256, 1024, device="cuda"))
    optimizer.zero_grad()
    out.square().mean().backward()
    optimizer.step()
    kept.append(out)
""",
    ),
    Example(
        """
import torch
from torch import nn
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(512, 2048), nn.Linear(2048, 2048)
    def forward(self, x, state):
        return torch.tanh(self.inner(x) + self.outer(state))
cell = Cell().cuda()
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
state = torch.zeros(4096, 2048, device="cuda")
for _ in range(20000):
    state = cell(torch.randn(4096, 512, device="cuda"), state)
    optimizer.zero_grad()
    state.square().mean().backward(retain_graph=True)
    optimizer.step()
""",
        gpu="a100-40gb",
    ),
    Example(
        """
import torch
from torch.utils.data import DataLoader, TensorDataset
class Evaluation:
    def __init__(self):
        self.predictions = {}
    @torch.no_grad()
    def run(self, net, loader):
        for number, (x,) in enumerate(loader):
            self.predictions[number] = net(x.cuda())
net = torch.nn.Linear(8, 50000).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    optimizer.step()
Evaluation().run(net, DataLoader(TensorDataset(torch.randn(500000, 8)), batch_size=256))
""",
    ),
)

GOOD = (
    """
import torch
from collections import deque
model = torch.nn.Linear(64, 50000).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
last, logits, cache = deque(maxlen=50), [], {}
for step in range(1000000):
    out = model(torch.randn(256, 64, device="cuda"))
    if step % 4 not in cache:
        cache[step % 4] = torch.ones(1024, 1024, device="cuda")
    optimizer.zero_grad()
    out.square().mean().backward()
    optimizer.step()
    last.append(out.detach())
    logits.append(out)
    if len(logits) == 100:
        logits.clear()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find what keeps the memory that the GPU is full of before the run ends."""
    memory = run.context.memory
    if memory is None or memory.fits != "no" or memory.oom is None or memory.oom.phase != "growth":
        return
    growing = [growth for growth in run.profile.growth if growth.bytes > 0 and not growth.bounded]
    filling = [growth for growth in growing if _fills(growth, memory.oom)]
    growth = max(filling or growing, key=lambda item: item.bytes, default=None)
    if growth is None:
        return  # what reading says of it stands
    unit = "step" if growth.phase == "training" else "round"
    yield run.finding(
        RULE,
        kept_at(growth),
        f"memory grows by {format_bytes(growth.bytes)} with every {unit}{because(growth, unit)}: the GPU is full at {unit} "
        f"{memory.oom.step:,}",
        evidence=[
            seen(f"kept per {unit}", growth.bytes, "bytes"),
            seen(f"{unit}s that were run", growth.seen),
            Evidence(f"{unit} at which the GPU is full", memory.oom.step, None, "derived", memory.oom.arithmetic),
        ],
        related=made_at(growth),
        fix=Fix(
            title="keep numbers or tensors of the host, and detach what is carried on",
            instruction="collect loss.item() or output.detach().cpu(); detach() recurrent state at the start of a step",
            expected="the memory stays the same from step to step",
        ),
        confidence="certain",
    )


def _fills(growth: Growth, oom: Oom) -> bool:
    """Whether the step or the round at which the GPU is full is one of this growth: that of a loop is told by its place."""
    told = oom.arithmetic or ""
    return "of the loop at" not in told if growth.phase == "training" else f"of the loop at {growth.loop}:" in told
