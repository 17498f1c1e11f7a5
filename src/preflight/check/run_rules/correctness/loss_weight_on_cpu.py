"""Sees a loss stop because its weights or its targets are on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.refused import Refused
from preflight.check.observed.run import Run
from preflight.check.rules.correctness.loss_weight_on_cpu import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import torch
from torch import nn
net = nn.Linear(8, 3).cuda()
criterion = nn.CrossEntropyLoss(**{"weight": torch.tensor([1.0, 2.0, 3.0])})
criterion(net(torch.randn(4, 8).cuda()), torch.zeros(4, dtype=torch.long).cuda()).backward()
""",
    """
import torch
from torch import nn
net = nn.Linear(8, 1).cuda()
class Objective:
    def __init__(self, **options):
        self.loss = nn.BCEWithLogitsLoss(**options)
    def __call__(self, x, y):
        return self.loss(net(x), y)
objective = Objective(pos_weight=torch.tensor([2.0, 2.0, 2.0, 2.0]).view(4, 1))
objective(torch.randn(4, 8).cuda(), torch.ones(4, 1).cuda()).backward()
""",
    """
import torch
from torch import nn
net = nn.Linear(8, 3).cuda()
data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.zeros(64, dtype=torch.long))
for batch in torch.utils.data.DataLoader(data, batch_size=8):
    inputs, targets = batch[0].cuda(), batch[1]
    nn.functional.cross_entropy(net(inputs), targets).backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Linear(8, 3).cuda()
criterion = nn.CrossEntropyLoss(weight=torch.ones(3)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    criterion(net(torch.randn(4, 8).cuda()), torch.zeros(4, dtype=torch.long).cuda()).backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look for the exception of two devices in a loss."""
    refused = Refused.of(run)
    if refused is None or not refused.says("on the same device") or not refused.is_loss:
        return
    weights = [t["name"] for t in refused.own if t["device"] == "cpu"]
    given = [t["name"] for t in (*refused.named, *refused.inputs) if t["device"] == "cpu"]
    what = " and ".join(dict.fromkeys(weights or given)) or "one of its tensors"
    move = "call .to(device) on the criterion" if weights else f"move {what} to the device of the model's output"
    yield run.finding(
        RULE,
        refused.line,
        f"{'the ' + what + ' of this loss' if weights else what} is on the CPU and the model's output on the GPU: the run "
        "stops here",
        evidence=refused.evidence(),
        fix=Fix(title="put both on one device", instruction=move, expected="the loss is computed on the GPU"),
        related=refused.sources(),
        confidence="certain",
    )
