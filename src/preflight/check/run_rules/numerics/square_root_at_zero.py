"""Sees a root, on the way of the gradient, of a sum of squares or of a variance with nothing added."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.origins import first_of_each
from preflight.check.observed.run import Run, seen
from preflight.check.rules.numerics.square_root_at_zero import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import Observation

BAD = (
    """
import torch
net = torch.nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def distance(a, b, power=2):
    return sum([((a - b) ** power).sum(dim=1)]).sqrt()
for _ in range(4):
    optimizer.zero_grad()
    a, b = net(torch.randn(4, 8).cuda()), net(torch.randn(4, 8).cuda())
    torch.sqrt(((a - b) ** 2).sum(1)).mean().backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Distance(nn.Module):
    def forward(self, a, b):
        d = a[:, None] - b[None]
        return torch.mul(d, d).mean(-1).sqrt()
net, distance = nn.Linear(8, 4).cuda(), Distance()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    a = net(torch.randn(4, 8).cuda())
    distance(a, a).sum().backward()
    optimizer.step()
""",
    """
import torch
net = torch.nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def spread(x):
    return getattr(torch, "var")(x, dim=0).sqrt()
for _ in range(4):
    optimizer.zero_grad()
    (1 - spread(net(torch.randn(4, 8).cuda()))).relu().mean().backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    a, b = net(torch.randn(4, 8).cuda()), net(torch.randn(4, 8).cuda())
    safe = ((a - b).square().sum(1) + 1e-12).sqrt().mean() + (a - b).norm(dim=1).mean() + (a.var(0) + 1e-4).sqrt().mean()
    (safe + (a - b).square().mean().sqrt() + a.exp().sqrt().mean()).backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look what each root is taken of."""
    for item in first_of_each([i for i in run.seen("sqrt", "rsqrt") if _can_be_zero(i)]):
        what = "variance" if item.data["path"][0] == "var" else "sum of squares"
        yield run.finding(
            RULE,
            item.line,
            f"the root of a {what}, of shape {tuple(item.data['shape'])}, has an infinite derivative at 0: one zero among its "
            "numbers makes the gradient NaN",
            evidence=[
                seen("operators before the root", ", ".join(item.data["path"][:3])),
                seen("shape under the root", str(tuple(item.data["shape"]))),
            ],
            fix=Fix(
                title="keep the root from zero",
                instruction="add a constant under the root: sqrt(s + 1e-12), or use torch.linalg.vector_norm",
                expected="the gradient is finite for equal vectors",
            ),
        )


def _can_be_zero(item: Observation) -> bool:
    path = item.data["path"]
    if not path or not item.data["shape"]:
        return False
    return path[0] == "var" or (path[0] in ("sum", "mean") and item.data["square"])


def disproves(run: Run, finding: Finding) -> bool:
    """Whether the root at this place was seen to be taken of something else."""
    found = run.seen_at(finding.location, "sqrt", "rsqrt")
    return bool(found) and not any(_can_be_zero(i) for i in found)
