"""Sees a loss that compares every output with every target."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.origins import first_of_each
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.loss_broadcasts import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import Observation

BAD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randn(64))
criteria = {"l2": nn.MSELoss(), "huber": nn.SmoothL1Loss()}
for x, y in torch.utils.data.DataLoader(data, batch_size=8):
    optimizer.zero_grad()
    criteria["l2"](net(x.cuda()), y.cuda()).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
q = nn.Linear(8, 3).cuda()
optimizer = torch.optim.Adam(q.parameters())
def target(reward, states):
    with torch.no_grad():
        return reward + 0.9 * q(states).max(1).values
for _ in range(4):
    x, action, reward = torch.randn(32, 8).cuda(), torch.zeros(32, 1, dtype=torch.long).cuda(), torch.ones(32).cuda()
    value = q(x).gather(1, action)
    loss = ((value - target(reward, x)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 1)
    def forward(self, x):
        return self.fc(x).flatten()
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def objective(name):
    return getattr(nn.functional, name)
for _ in range(4):
    optimizer.zero_grad()
    objective("l1_loss")(net(torch.randn(16, 8).cuda()), torch.ones(16, 1).cuda()).backward()
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
    out = net(torch.randn(16, 8).cuda()).squeeze(1)
    far = (out[:, None] - out).square().mean()
    (nn.functional.mse_loss(out, torch.ones(16).cuda()) + far).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
net = nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    out = net(torch.randn(1, 8).cuda())
    nn.functional.mse_loss(out[:, :1], torch.ones(1).cuda()).backward()
    (net(torch.randn(16, 8).cuda()) - torch.zeros(3).cuda()).pow(2).mean().backward()
    optimizer.step()
""",
)

_LOSSES = ("mse_loss", "smooth_l1_loss", "huber_loss", "difference")


def observe(run: Run) -> Iterator[Finding]:
    """Compare the shapes that each elementwise loss was given before they were broadcast."""
    for item in first_of_each([i for i in run.seen(*_LOSSES) if i.data["graph"] and _spreads(i)]):
        one, other = tuple(item.data["given"]), tuple(item.data["compared"])
        count = max(*one, *other)
        yield run.finding(
            RULE,
            item.line,
            f"this loss compares {one} with {other}: broadcasting makes ({count}, {count}), and every output is compared with "
            "every target",
            evidence=[
                seen("shape of the output", str(one)),
                seen("shape of the target", str(other)),
                seen("pairs that are compared", count * count),
            ],
            fix=Fix(
                title="give both the same shape",
                instruction="remove the last dimension of the one with .squeeze(-1), or add it to the other with .unsqueeze(-1)",
                expected=f"each of the {count} outputs is compared with its own target",
            ),
            confidence="likely" if item.what == "difference" else "certain",
        )


def _spreads(item: Observation) -> bool:
    one, other = item.data["given"], item.data["compared"]
    column, row = (one, other) if len(one) == 2 else (other, one)
    return len(column) == 2 and len(row) == 1 and column[1] == 1 and column[0] == row[0] > 1


def disproves(run: Run, finding: Finding) -> bool:
    """Whether the loss at this place was seen to compare equal shapes."""
    losses = run.seen_at(finding.location, *_LOSSES[:3])
    return bool(losses) and all(i.data["given"] == i.data["compared"] for i in losses)
