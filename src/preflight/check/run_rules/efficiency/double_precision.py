"""Sees layers that compute in fp64 on the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.efficiency.double_precision import RULE
from preflight.vocabulary.finding import Finding

_STEPS = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    net(x.cuda()).square().mean().backward()
    optimizer.step()
"""

BAD = (
    f"""
import torch
types = {{"high": torch.float64}}
net = torch.nn.Linear(64, 64).cuda().to(**{{"dtype": types["high"]}})
x = torch.randn(128, 64, dtype=types["high"])
{_STEPS}""",
    f"""
import numpy, torch
weight = torch.from_numpy(numpy.zeros((64, 64)))
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(weight)
    def forward(self, x):
        return x @ self.weight
net = Net().cuda()
x = torch.from_numpy(numpy.ones((128, 64)))
{_STEPS}""",
    f"""
import torch
net = torch.nn.Conv2d(3, 8, 3).cuda()
for method in ("double",):
    getattr(net, method)()
x = torch.randn(4, 3, 32, 32).double()
{_STEPS}""",
)

GOOD = (
    f"""
import torch
net = torch.nn.Linear(64, 64).cuda()
x = torch.randn(128, 64)
total = torch.zeros(1, dtype=torch.float64).cuda() + torch.ones(8192).cuda().double().sum()
{_STEPS}""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look for products, convolutions and norms of fp64."""
    found = run.seen("fp64")
    if not found:
        return
    first = found[0]
    parameters = [p for p in run.profile.parameters if p.dtype == "float64"]
    size = sum(p.bytes for p in parameters)
    held = f", {len(parameters)} parameters of it included" if parameters else ""
    told = f"the network computes in fp64{held}: twice the memory of fp32, and a fraction of its speed"
    evidence = [
        seen("lines with products in fp64", len(found)),
        seen("first of them", f"{first.data['operator']} to {tuple(first.data['shape'])}"),
        seen("bytes of parameters in fp64", size, "bytes"),
    ]
    yield run.finding(
        RULE,
        first.line,
        told,
        evidence=evidence,
        fix=Fix(
            title="train in fp32",
            instruction="leave the network in fp32 and convert what NumPy made with .float(), or use mixed precision",
            expected="half the memory, and the speed of fp32",
        ),
        related=[(item.line, "fp64 here, too") for item in found[1:3]],
        confidence="certain",
    )


def disproves(run: Run, finding: Finding) -> bool:
    """Whether no parameter and no product was seen in fp64."""
    return (
        bool(run.profile.parameters)
        and not run.seen("fp64")
        and all(p.dtype != "float64" for p in run.profile.parameters)
    )
