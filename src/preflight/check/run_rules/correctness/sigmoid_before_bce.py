"""Sees BCE on the output of a sigmoid, and BCE that autocast refuses."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.origins import first_of_each, origin
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.sigmoid_before_bce import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()
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
net = nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def objective(p, y):
    return nn.functional.binary_cross_entropy(p.squeeze(1), y)
for _ in range(4):
    optimizer.zero_grad()
    objective(torch.sigmoid(net(torch.randn(4, 8).cuda())), torch.ones(4).cuda()).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
context = getattr(torch, "autocast")("cuda", dtype=torch.bfloat16)
for _ in range(4):
    optimizer.zero_grad()
    with context:
        loss = nn.BCELoss()(net(torch.randn(4, 8).cuda()), torch.ones(4, 1).cuda())
    loss.backward()
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
    sum(nn.BCELoss()(p, y) for p in (a(x).tanh().abs(), b(x).sigmoid())).backward()
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
    nn.BCEWithLogitsLoss()(net(torch.randn(4, 8).cuda()), torch.ones(4, 1).cuda()).backward()
    optimizer.step()
""",
)

_FIX = Fix(
    title="use the loss that takes logits",
    instruction="remove the sigmoid and use BCEWithLogitsLoss (binary_cross_entropy_with_logits); apply the sigmoid only "
    "where probabilities are read",
    expected="the loss is exact for every logit, and allowed under autocast",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look where the input of each binary cross entropy comes from."""
    if run.raised("unsafe to autocast"):
        yield run.finding(
            RULE,
            run.raised_at,
            "binary cross entropy on probabilities raises under autocast: it is not defined for half precision there",
            evidence=[seen("exception", run.profile.error), seen("optimizer steps before", run.profile.steps)],
            severity="error",
            confidence="certain",
            fix=_FIX,
        )
    told: set[str] = set()
    losses = [i for i in run.seen("binary_cross_entropy") if i.data["graph"] and origin(i)[0] == "sigmoid"]
    for item in first_of_each(losses):
        _, line = origin(item)
        if line in told:
            continue
        told.add(line)
        limit = 17 if item.data["dtype"] == "float32" else None
        lost = f": from a logit of {limit} on, float32 rounds it to 1 and gradients are lost" if limit else ""
        yield run.finding(
            RULE,
            item.line,
            f"this loss gets the output of a sigmoid{lost}",
            evidence=[seen("operator before the loss", "sigmoid"), seen("type of its input", item.data["dtype"])],
            fix=_FIX,
            related=[(line, "the sigmoid is here")] if line != item.line else (),
            confidence="certain",
        )


def disproves(run: Run, finding: Finding) -> bool:
    """Whether the loss at this place was seen to get something else than a sigmoid, and was not refused."""
    losses = run.seen_at(finding.location, "binary_cross_entropy", "binary_cross_entropy_with_logits")
    return bool(losses) and all(
        i.what == "binary_cross_entropy_with_logits" or origin(i)[0] not in ("", "sigmoid") for i in losses
    )
