"""Sees BCE whose input is the output of a layer."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.origins import LAYERS, first_of_each, origin, title
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.bce_on_logits import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = vars(nn)["BCELoss"]()
for _ in range(4):
    optimizer.zero_grad()
    criterion(net(torch.randn(4, 8).cuda()), torch.ones(4, 1).cuda()).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
net = nn.Conv2d(3, 1, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def objective(p, y, **kwargs):
    return nn.functional.binary_cross_entropy(p.flatten(), y.flatten(), **kwargs)
for _ in range(4):
    optimizer.zero_grad()
    objective(net(torch.randn(2, 3, 4, 4).cuda()), torch.ones(2, 4, 4).cuda(), reduction="sum").backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, probabilities=False):
        super().__init__()
        self.fc, self.last = nn.Linear(8, 1), nn.Sigmoid() if probabilities else nn.Identity()
    def forward(self, x):
        return self.last(self.fc(x)).squeeze(-1)
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    nn.BCELoss()(net(torch.randn(4, 8).cuda()), torch.ones(4).cuda()).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
a, b = nn.Linear(8, 1).cuda(), nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    x, y = torch.randn(4, 8).cuda(), torch.ones(4, 1).cuda()
    sum(nn.BCELoss()(p, y) for p in (a(x).sigmoid().clamp(1e-6, 1.0), b(x))).backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    p = net(torch.randn(4, 8).cuda()).sigmoid().clamp(1e-6, 1 - 1e-6)
    nn.BCELoss()(p, torch.ones(4, 1).cuda()).backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look where the input of each binary cross entropy comes from."""
    for item in first_of_each([i for i in run.seen("binary_cross_entropy") if origin(i)[0] in LAYERS]):
        name, line = origin(item)
        yield run.finding(
            RULE,
            item.line,
            f"this loss needs probabilities, but its input comes straight from a {title(name)}: the first number outside "
            "[0, 1] stops the run",
            evidence=[seen("operator before the loss", title(name)), seen("shape", str(tuple(item.data["shape"])))],
            fix=Fix(
                title="use the loss that takes logits",
                instruction="replace BCELoss by BCEWithLogitsLoss (binary_cross_entropy_with_logits), or apply a sigmoid "
                "first",
                expected="the loss is defined for every output",
            ),
            related=[(line, "the input of the loss is made here")] if line != item.line else (),
            confidence="certain",
        )


def disproves(run: Run, finding: Finding) -> bool:
    """Whether the loss at this place was seen to get something else."""
    losses = run.seen_at(finding.location, "binary_cross_entropy")
    return bool(losses) and all(origin(i)[0] not in LAYERS | {""} for i in losses)
