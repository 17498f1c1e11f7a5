"""Sees a logarithm whose operand comes from a soft-max or a sigmoid."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.origins import first_of_each, origin
from preflight.check.observed.run import Run, seen
from preflight.check.rules.numerics.log_of_softmax import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import Observation

BAD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 4), *[nn.Softmax(dim=d) for d in (1,)]).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    p = net(torch.randn(4, 8).cuda())
    (-(torch.full_like(p, 0.25) * getattr(p, "log")()).sum(1)).mean().backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)
    def forward(self, x):
        return {"p": self.fc(x).softmax(-1)}
net = Policy().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def log(p, eps):
    return torch.log(p + eps)
for _ in range(4):
    optimizer.zero_grad()
    log(net(torch.randn(4, 8).cuda())["p"], 1e-8).mean().backward()
    optimizer.step()
""",
    """
import torch
net = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
gate = {"act": torch.sigmoid}
for _ in range(4):
    optimizer.zero_grad()
    (-gate["act"](net(torch.randn(4, 8).cuda())).log().mean()).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
a, b = nn.Linear(8, 3).cuda(), nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    x = torch.randn(4, 8).cuda()
    sum(p.log().mean() for p in (a(x).exp(), b(x).softmax(1))).backward()
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
    out = net(torch.randn(4, 8).cuda())
    with torch.no_grad():
        shown = out.softmax(-1).log()
    p = out.softmax(-1).clamp(1e-6, 1.0)
    (out.log_softmax(-1).mean() + p.log().mean()).backward()
    optimizer.step()
""",
)

_STABLE = {"_softmax": ("soft-max", "log_softmax"), "sigmoid": ("sigmoid", "logsigmoid")}


def observe(run: Run) -> Iterator[Finding]:
    """Look where the operand of each logarithm with a gradient comes from."""
    for item in first_of_each([i for i in run.seen("log", "log2", "log10") if _underflows(i)]):
        path, places = item.data["path"], item.data["places"]
        constant = path[0] == "add"
        at = 1 if constant else 0
        what, stable = _STABLE[path[at]]
        loses = "; the constant that is added caps it and takes the gradient of the most wrong away" if constant else ""
        yield run.finding(
            RULE,
            item.line,
            f"log of a {what} underflows where the probability is tiny{loses}: {stable} computes the same without it",
            evidence=[
                seen("operators before the logarithm", ", ".join(path[: at + 1]).replace("_", "")),
                seen("type", item.data["dtype"]),
            ],
            fix=Fix(
                title=f"use {stable}",
                instruction=f"compute it with torch.nn.functional.{stable} from the logits",
                expected="no infinite loss and no vanishing gradient at small probabilities",
            ),
            related=[(places[at], f"the {what} is here")] if places[at] != item.line else (),
            confidence="certain",
        )


def _underflows(item: Observation) -> bool:
    """Whether the operand comes from a soft-max or a sigmoid, perhaps with a constant added."""
    path = item.data["path"]
    last = path[1:2] if path[:1] == ["add"] else path[:1]
    return bool(last) and last[0] in _STABLE


def disproves(run: Run, finding: Finding) -> bool:
    """Whether the logarithm at this place was seen to take something else."""
    found = run.seen_at(finding.location, "log", "log2", "log10")
    return bool(found) and all(origin(i)[0] not in ("", "add", *_STABLE) for i in found)
