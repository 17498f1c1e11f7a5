"""Sees a loss of log-probabilities whose input is the output of a layer, or of a soft-max."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.origins import LAYERS, first_of_each, origin, title
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.nll_loss_on_logits import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 10)).cuda()
criterion = {"nll": nn.NLLLoss}["nll"]()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    criterion(net(torch.randn(4, 8).cuda()), torch.zeros(4, dtype=torch.long).cuda()).backward()
    optimizer.step()
""",
    """
import torch
import torch.nn.functional as F
class Net(torch.nn.Module):
    def __init__(self, act):
        super().__init__()
        self.fc, self.act = torch.nn.Linear(8, 5), act
    def forward(self, x):
        return self.act(self.fc(x))
net = Net(torch.nn.Softmax(dim=-1)).cuda()
optimizer = torch.optim.Adam(net.parameters())
def loss_of(out, y):
    return F.nll_loss(out.view(-1, 5), y.view(-1))
for _ in range(4):
    optimizer.zero_grad()
    loss_of(net(torch.randn(2, 3, 8, device="cuda")), torch.zeros(2, 3, dtype=torch.long, device="cuda")).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
net = nn.Conv2d(3, 6, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def objective(kind, out, y):
    return getattr(nn.functional, kind)(out, y)
for _ in range(4):
    optimizer.zero_grad()
    objective("nll_loss", net(torch.randn(2, 3, 4, 4).cuda()), torch.zeros(2, 4, 4, dtype=torch.long).cuda()).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
a, b = nn.Linear(8, 3).cuda(), nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    x, y = torch.randn(4, 8).cuda(), torch.zeros(4, dtype=torch.long).cuda()
    sum(nn.NLLLoss()(p, y) for p in (a(x).log_softmax(1), b(x))).backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Linear(8, 5).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    x, y = torch.randn(4, 8).cuda(), torch.zeros(4, dtype=torch.long).cuda()
    optimizer.zero_grad()
    out = net(x)
    own = out - out.logsumexp(-1, keepdim=True)
    (nn.functional.nll_loss(own, y) + nn.functional.cross_entropy(out, y)).backward()
    optimizer.step()
""",
)

_WRONG = LAYERS | {"_softmax", "sigmoid", "relu", "gelu", "tanh"}


def observe(run: Run) -> Iterator[Finding]:
    """Look where the input of each loss of log-probabilities comes from."""
    for item in first_of_each([i for i in run.seen("nll_loss") if i.data["graph"] and origin(i)[0] in _WRONG]):
        name, line = origin(item)
        what = "probabilities" if name in ("_softmax", "sigmoid") else "numbers that are not normalised"
        yield run.finding(
            RULE,
            item.line,
            f"this loss needs log-probabilities, but its input of shape {tuple(item.data['shape'])} holds {what}: it comes "
            f"from a {title(name)}",
            evidence=[seen("operator before the loss", title(name)), seen("classes", item.data["classes"])],
            fix=Fix(
                title="use cross entropy on the logits",
                instruction="replace nll_loss by cross_entropy on logits, or apply log_softmax first",
                expected="the loss compares the classes",
            ),
            related=[(line, "the input of the loss is made here")] if line != item.line else (),
            confidence="certain",
        )


def disproves(run: Run, finding: Finding) -> bool:
    """Whether the loss at this place was seen to get a log-soft-max."""
    losses = run.seen_at(finding.location, "nll_loss")
    return bool(losses) and all(origin(i)[0] == "_log_softmax" for i in losses)
