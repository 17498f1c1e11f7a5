"""A sampler that does not shuffle is told the epoch.

## What it does
Looks for `set_epoch` of a `DistributedSampler` with `shuffle=False` whose loader feeds the training.

## Why
The number of the epoch goes into the seed of the shuffle and into nothing else.
Whoever sets it wants another order in each epoch; with `shuffle=False` all epochs go through the samples in stored order.

## Fix
Leave `shuffle=False` away where the sampler of the training data is made.

## When to ignore
When a stored order is meant, and the call is there out of habit.

## References
- PyTorch documentation, `torch.utils.data.distributed.DistributedSampler`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import given, training_loaders
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="epoch-set-without-shuffle",
    code="DST025",
    severity="warning",
    confidence="likely",
    needs=("loader", "training_loop"),
    layer="D",
    tags=("data", "ddp"),
    beside=True,
)

_HEAD = """
import torch
from torch import nn
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
dist.init_process_group("nccl")
model = nn.parallel.DistributedDataParallel(nn.Linear(10, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(loader):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
BAD = (
    f"""{_HEAD}
sampler = DistributedSampler(rows, shuffle=False)
loader = DataLoader(rows, batch_size=8, sampler=sampler)
for epoch in range(3):
    sampler.set_epoch(epoch)
    train(loader)
""",
    f"""{_HEAD}
loader = DataLoader(rows, batch_size=8, sampler=DistributedSampler(rows, 2, 0, False))
for epoch in range(3):
    loader.sampler.set_epoch(epoch)
    train(loader)
""",
    f"""{_HEAD}
class Data:
    def __init__(self, shuffle=False):
        self.sampler = DistributedSampler(rows, shuffle=shuffle, drop_last=True)
        self.loader = DataLoader(rows, batch_size=8, sampler=self.sampler)
data = Data()
for epoch in range(3):
    data.sampler.set_epoch(epoch)
    train(data.loader)
""",
)
GOOD = (
    f"""{_HEAD}
sampler = DistributedSampler(rows)
loader = DataLoader(rows, batch_size=8, sampler=sampler)
for epoch in range(3):
    sampler.set_epoch(epoch)
    train(loader)
""",
    f"""{_HEAD}
sampler = DistributedSampler(rows, shuffle=False)
loader = DataLoader(rows, batch_size=8, sampler=sampler)
for epoch in range(3):
    train(loader)
""",
    f"""{_HEAD}
first, second = DistributedSampler(rows), DistributedSampler(others, shuffle=False)
loader, held_out = DataLoader(rows, batch_size=8, sampler=first), DataLoader(others, batch_size=8, sampler=second)
for epoch in range(3):
    first.set_epoch(epoch)
    second.set_epoch(epoch)
    train(loader)
    with torch.no_grad():
        for x, y in held_out:
            model(x)
""",
)

_NEAR = 8
"""How far a sampler is from what is told the epoch: it, or the loader that has it."""


def check(context: Context) -> Iterator[Finding]:
    """Find samplers of the training data that are told the epoch and never shuffle."""
    feeding = [value for loader in training_loaders(context) if (value := given(loader, "sampler")) is not None]
    used = {id(settle(value)) for value in feeding}
    for sampler in context.reading.made("sampler"):
        if sampler.name != "torch.utils.data.DistributedSampler" or sampler.cls is not None or id(sampler) not in used:
            continue
        if context.value(sampler.argument(3, "shuffle"), True) is not False:
            continue
        told = [one for one in context.trace.calls(".set_epoch") if one.receiver is not None]
        call = next((one for one in told if any(part is sampler for part in provenance(one.receiver, _NEAR))), None)
        if call is None:
            continue
        yield context.finding(
            RULE,
            sampler,
            "set_epoch() is called on this sampler, and with shuffle=False it changes nothing: all epochs have the same order",
            evidence=[Evidence("shuffle", False), Evidence("calls of set_epoch", len(told))],
            related=[(call, "the sampler is told the epoch here")],
            fix=Fix(
                title="let the sampler shuffle",
                instruction="leave shuffle=False away, or the call of set_epoch where the stored order is meant",
                expected="each epoch has an order of its own",
            ),
        )
