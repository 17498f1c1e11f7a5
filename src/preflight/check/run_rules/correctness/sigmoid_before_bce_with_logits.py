"""Sees BCE with logits whose input comes from a sigmoid or a soft-max."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.origins import first_of_each, origin, title
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.sigmoid_before_bce_with_logits import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def criterion(name="BCEWithLogits"):
    return getattr(nn, name + "Loss")()
for _ in range(4):
    optimizer.zero_grad()
    criterion()(net(torch.randn(4, 8).cuda()), torch.ones(4, 1).cuda()).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.gates = nn.Linear(8, 3), [torch.sigmoid]
    def forward(self, x):
        x = self.fc(x)
        for gate in self.gates:
            x = gate(x)
        return x[:, 0]
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    nn.functional.binary_cross_entropy_with_logits(net(torch.randn(4, 8).cuda()), torch.ones(4).cuda()).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 3), nn.Softmax(dim=1)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses = dict(multi=nn.BCEWithLogitsLoss(reduction="sum"))
for _ in range(4):
    optimizer.zero_grad()
    losses["multi"](net(torch.randn(4, 8).cuda()), torch.ones(4, 3).cuda()).backward()
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
    sum(nn.BCEWithLogitsLoss()(p, y) for p in (a(x), b(x).sigmoid())).backward()
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
    out = net(torch.randn(4, 8).cuda())
    nn.BCEWithLogitsLoss()(out, torch.ones(4, 1).cuda()).backward()
    right = (out.sigmoid() > 0.5).sum()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look where the input of each BCE with logits comes from."""
    losses = [i for i in run.seen("binary_cross_entropy_with_logits") if i.data["graph"]]
    for item in first_of_each([i for i in losses if origin(i)[0] in ("sigmoid", "_softmax")]):
        name, line = origin(item)
        yield run.finding(
            RULE,
            item.line,
            f"this loss applies a sigmoid itself, but its input already went through a {title(name)}: no output can fall "
            "below 0.5",
            evidence=[seen("operator before the loss", title(name)), seen("lowest loss of a negative example", 0.69)],
            fix=Fix(
                title="give the logits to the loss",
                instruction=f"remove the {title(name)} before the loss; apply it only to show probabilities",
                expected="outputs can take every probability",
            ),
            related=[(line, f"the {title(name)} is here")] if line != item.line else (),
            confidence="certain",
        )


def disproves(run: Run, finding: Finding) -> bool:
    """Whether the loss at this place was seen to get something else."""
    losses = run.seen_at(finding.location, "binary_cross_entropy_with_logits")
    return bool(losses) and all(origin(i)[0] not in ("", "sigmoid", "_softmax") for i in losses)
