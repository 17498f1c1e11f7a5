"""Sees a loss whose input was normalised over dimension 0 of a batch."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.origins import origin
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.softmax_over_batch import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import Observation

BAD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 10), nn.LogSoftmax(dim=0)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    nn.NLLLoss()(net(torch.randn(4, 8).cuda()), torch.zeros(4, dtype=torch.long).cuda()).backward()
    optimizer.step()
""",
    """
import torch
import torch.nn.functional as F
settings = {"dim": 0}
class GCN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 3)
    def forward(self, x):
        return F.log_softmax(self.fc(x), **settings)
net = GCN().to("cuda")
mask = torch.tensor([True, True, False, True]).cuda()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(4):
    optimizer.zero_grad()
    out = net(torch.randn(4, 8, device="cuda"))
    F.nll_loss(out[mask], torch.zeros(4, dtype=torch.long, device="cuda")[mask]).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Points(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 5, 1)
        self.norm = nn.LogSoftmax()
    def forward(self, x):
        self.norm.dim = -3
        return self.norm(self.conv(x).transpose(1, 2)).reshape(-1, 5)
net = Points().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    nn.functional.nll_loss(net(torch.randn(2, 3, 7).cuda()), torch.zeros(14, dtype=torch.long).cuda()).backward()
    optimizer.step()
""",
    """
import torch
import torch.nn.functional as F
from torch import nn
a, b = nn.Linear(8, 3).cuda(), nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    x, y = torch.randn(4, 8).cuda(), torch.zeros(4, dtype=torch.long).cuda()
    one = F.log_softmax(a(x), 1)
    two = F.log_softmax(b(x), 0)
    sum(nn.NLLLoss()(p, y) for p in (one, two)).backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
policy = nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    logp = policy(torch.randn(8).cuda()).log_softmax(0)
    nn.functional.nll_loss(logp, torch.tensor(1).cuda()).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.out = nn.Linear(8, 1), nn.Linear(8, 3)
    def forward(self, steps):
        weights = self.score(steps).softmax(0)
        return self.out((weights * steps).sum(0))
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    out = net(torch.randn(6, 4, 8).cuda())
    nn.functional.cross_entropy(out, torch.zeros(4, dtype=torch.long).cuda()).backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Follow the input of each loss of log-probabilities to the log-soft-max that made it."""
    told: set[str] = set()
    for loss in run.seen("nll_loss"):
        name, line = origin(loss)
        plain = not loss.data["graph"] or len(loss.data["shape"]) < 2
        if loss.line in told or name != "_log_softmax" or plain:
            continue
        made = [i for i in run.seen("log_softmax") if i.line == line and i.data["graph"]]
        wrong = [i for i in made if _over_batch(i, loss)]
        if not made or len(wrong) < len(made):
            continue
        told.add(loss.line)
        shape = tuple(wrong[0].data["shape"])
        yield run.finding(
            RULE,
            line,
            f"log-soft-max over dimension 0 of {shape} normalises over the batch instead of over the "
            f"{loss.data['classes']} classes of the loss",
            evidence=[
                seen("dimension", 0),
                seen("shape of its input", str(shape)),
                seen("classes", loss.data["classes"]),
            ],
            fix=Fix(
                title="normalise over the classes",
                instruction="use dim=-1, or dim=1 for images",
                expected="the probabilities of each example sum to one",
            ),
            related=[(loss.line, "its result is given to this loss")] if loss.line != line else (),
            confidence="certain",
        )


def _over_batch(made: Observation, loss: Observation) -> bool:
    shape = made.data["shape"]
    # Transposed afterwards, the first dimension may have been that of the classes.
    turned = shape[0] == loss.data["classes"] and shape != loss.data["shape"]
    return made.data["dim"] == 0 and len(shape) >= 2 and not turned


def disproves(run: Run, finding: Finding) -> bool:
    """Whether the soft-max at this place was seen to go over another dimension, or over the only one."""
    made = run.seen_at(finding.location, "softmax", "log_softmax")
    return bool(made) and all(i.data["dim"] > 0 or len(i.data["shape"]) < 2 for i in made)
