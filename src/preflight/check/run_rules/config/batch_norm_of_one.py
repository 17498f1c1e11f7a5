"""Batch norm meets a batch of one.

## What it does
Explains the exception "Expected more than 1 value per channel when training", and says beforehand in which step it comes: batch norm on flat features, in train mode, and a loader whose last batch holds one example.

## Why
Batch norm divides by the deviation of a channel within the batch.
With one number for each channel there is none, and PyTorch stops the run: often at the end of the first epoch, hours after the start.

## Fix
Leave a smaller last batch out: `DataLoader(..., drop_last=True)`; or choose another batch size.

## When to ignore
Never: the run stops.

## References
- PyTorch documentation of BatchNorm1d and of DataLoader
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.refused import Refused
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import Observation

RULE = Rule(
    name="batch-norm-of-one",
    code="CFG009",
    severity="error",
    confidence="certain",
    layer="V",
    tags=("shapes", "batch", "dry-run"),
)

BAD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).cuda()
net(torch.randn(1, 8).cuda()).sum().backward()
""",
    """
import torch
from torch import nn
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool, self.norm = nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(3)
    def forward(self, x):
        return self.norm(self.pool(x))
net = Head().cuda()
for x in torch.randn(4, 1, 3, 8, 8):
    net(x.cuda()).sum().backward()
""",
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(8 * 10 + 1, 8))
for epoch in range(2):
    for (x,) in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        net(x.cuda()).sum().backward()
        optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(81, 8))
for (x,) in torch.utils.data.DataLoader(data, batch_size=8, drop_last=True):
    optimizer.zero_grad()
    net(x.cuda()).sum().backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    for (x,) in torch.utils.data.DataLoader(data, batch_size=8):
        net(x.cuda())
""",
)


_FIX = Fix(
    title="leave a batch of one out",
    instruction="pass drop_last=True to the loader, choose another batch size, or call eval() where this is no training",
    expected="every batch holds at least two examples",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look for the exception, and for a loader that will bring it."""
    refused = Refused.of(run)
    if refused is not None and refused.says("more than 1 value per channel"):
        yield run.finding(
            RULE,
            refused.line,
            f"{refused.where} is in train mode and gets one number for each channel: the run stops here, in step "
            f"{run.profile.steps + 1}",
            evidence=refused.evidence(),
            fix=_FIX,
            related=refused.sources(),
        )
    # A norm over examples alone: as many numbers for each channel as there are examples.
    flat = [i for i in run.seen("batch norm") if i.data["training"] and i.data["graph"] and _flat(i)]
    for loader in run.profile.loaders:
        if (
            not loader.trains
            or loader.drop_last
            or not loader.batch_size
            or not loader.samples
            or "Distr" in loader.sampler
        ):
            continue
        norm = next((i for i in flat if i.data["batch"] == loader.batch_size), None)
        if norm is None or loader.batch_size < 2 or loader.samples % loader.batch_size != 1:
            continue
        if loader.batches != loader.samples // loader.batch_size + 1:
            continue  # a sampler chooses other than all of them
        yield run.finding(
            RULE,
            loader.line,
            f"the last batch of this loader holds one example, which {norm.module or 'batch norm'} refuses in train mode: the "
            f"run stops in step {loader.batches} of the first epoch",
            evidence=[
                seen("samples", loader.samples),
                seen("batch size", loader.batch_size),
                seen("examples in the last batch", loader.samples % loader.batch_size),
            ],
            fix=_FIX,
            related=[(norm.line, "batch norm over the examples of a batch is here")],
            confidence="possible" if run.profile.assumptions else "certain",
        )


def _flat(item: Observation) -> bool:
    return bool(item.data["rows"] == item.data["batch"])
