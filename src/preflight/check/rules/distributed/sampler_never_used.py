"""Distributed sampler that no loader gets.

## What it does
Looks for a `DistributedSampler` that is made and then given to nothing: its variable is overwritten, or the loader gets another sampler.

## Why
The loader then goes over the whole data set on every rank: an evaluation takes N times as long as it should, and a training epoch repeats the data N times.

## Fix
Give the sampler to the loader: `DataLoader(dataset, sampler=sampler)`.

## When to ignore
When the sampler is handed on by code that cannot be seen from the script.

## References
- PyTorch documentation, torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import parents_of
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="sampler-never-used",
    code="DST011",
    severity="warning",
    confidence="likely",
    needs=("complete",),
    layer="D",
    tags=("distributed", "data"),
)

BAD = (
    """
from torch.utils.data import DataLoader, SequentialSampler
from torch.utils.data.distributed import DistributedSampler
sampler = DistributedSampler(dataset)
sampler = SequentialSampler(dataset)
loader = DataLoader(dataset, sampler=sampler, batch_size=8)
""",
    """
import torch.utils.data as data
def loaders(train, valid, batch):
    train_sampler = data.distributed.DistributedSampler(train)
    valid_sampler = data.distributed.DistributedSampler(valid, shuffle=False)
    return data.DataLoader(train, batch, sampler=train_sampler), data.DataLoader(valid, batch, sampler=data.SequentialSampler(valid))
a, b = loaders(x, y, 8)
""",
    """
import argparse
from torch.utils import data
p = argparse.ArgumentParser()
p.add_argument("--batch", type=int, default=8)
args = p.parse_args()
shards = data.DistributedSampler(dataset)
for epoch in range(3):
    shards.set_epoch(epoch)
    for batch in data.DataLoader(dataset, args.batch, shuffle=False):
        use(batch)
""",
)

GOOD = (
    """
import argparse
from torch.utils.data import DataLoader, RandomSampler, DistributedSampler
p = argparse.ArgumentParser()
p.add_argument("--local_rank", type=int, default=-1)
args = p.parse_args()
sampler = RandomSampler(dataset) if args.local_rank == -1 else DistributedSampler(dataset)
loader = DataLoader(dataset, sampler=sampler)
""",
    """
from torch.utils.data import DataLoader, DistributedSampler, BatchSampler
class Data:
    def __init__(self, dataset):
        self.sampler = DistributedSampler(dataset)
        self.dataset = dataset
    def loader(self):
        return DataLoader(self.dataset, batch_sampler=BatchSampler(self.sampler, 8, True))
loader = Data(dataset).loader()
samplers = {"train": DistributedSampler(dataset)}
first = DataLoader(dataset, sampler=samplers["train"])
indices = list(DistributedSampler(dataset))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find samplers that nothing takes."""
    samplers = [
        s for s in context.reading.made("sampler") if s.name == "torch.utils.data.DistributedSampler" and s.cls is None
    ]
    if not samplers:
        return
    used = _used(context, samplers)
    for sampler in samplers:
        if (
            id(sampler) in used
            or sampler.context is None
            or any(f.kind == "if" and f.taken is False for f in sampler.context.frames())
        ):
            continue
        yield context.finding(
            RULE,
            sampler,
            "this DistributedSampler is given to no loader: every rank goes over the whole data set",
            evidence=[Evidence("loaders that take this sampler", 0)],
            fix=Fix(
                title="give the sampler to its loader",
                instruction="pass it as DataLoader(..., sampler=sampler), without shuffle",
                expected="each rank reads its own part",
            ),
        )


def _used(context: Context, samplers: list[Obj]) -> set[int]:
    """Identities of the samplers that something takes, or that something is made from that is taken."""
    events = context.trace.events
    stack = [store.value for store in context.trace.stores]
    for event in events:
        if not event.inlined:
            stack += (*event.args, *event.kwargs.values())
            if event.name != ".set_epoch" and event.receiver is not None:
                stack.append(event.receiver)
    stack += (f.value for e in events for f in e.context.frames() if f.kind == "loop" and f.value is not None)
    seen: set[int] = set()
    while stack:
        value = stack.pop()
        if id(value) not in seen:
            seen.add(id(value))
            stack.extend(parents_of(value))
    return {id(sampler) for sampler in samplers} & seen
