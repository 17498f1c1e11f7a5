"""Distributed sampler is never told the epoch.

## What it does
Looks for a shuffling `DistributedSampler` whose loader is iterated in a training loop inside a loop over epochs, without `sampler.set_epoch(epoch)`.

## Why
The sampler shuffles with `seed + epoch`, and the epoch stays 0: every epoch visits the samples in the same order, and each rank sees the same shard again.

## Fix
Call `sampler.set_epoch(epoch)` at the start of each epoch.

## When to ignore
When the same order in every epoch is wanted.

## References
- PyTorch documentation, torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from preflight.check.context import Context, Edit, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import provenance
from preflight.source.training import TrainingLoop
from preflight.source.values import Obj, Unknown, Value, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="sampler-without-set-epoch",
    code="DST001",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="S",
    tags=("distributed", "data"),
)

BAD = (
    """
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
dist.init_process_group("nccl")
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=32, sampler=sampler)
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
""",
    """
import torch, argparse
from torch import nn
import torch.utils.data as data
from tqdm import tqdm
def build(args):
    sampler = data.distributed.DistributedSampler(dataset, shuffle=args.shuffle)
    return data.DataLoader(dataset, 32, sampler=sampler)
def train_epoch(model, loader, optimizer):
    for step, (x, y) in enumerate(tqdm(loader)):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
def main():
    p = argparse.ArgumentParser()
    p.add_argument("--shuffle", type=int, default=1)
    args = p.parse_args()
    torch.distributed.init_process_group("nccl")
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = build(args)
    for epoch in range(3):
        train_epoch(model, loader, optimizer)
main()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader as DL, DistributedSampler as DS
class Trainer:
    def __init__(self, model, dataset):
        self.model = nn.parallel.DistributedDataParallel(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.sampler = DS(dataset)
        self.loader = DL(dataset, batch_size=8, sampler=self.sampler)
    def run(self):
        for epoch in range(5):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                nn.functional.mse_loss(self.model(x), y).backward()
                self.optimizer.step()
torch.distributed.init_process_group("nccl")
Trainer(nn.Linear(4, 1), dataset).run()
""",
)

GOOD = (
    BAD[0].replace("    for x, y in loader:", "    loader.sampler.set_epoch(epoch)\n    for x, y in loader:"),
    BAD[2]
    .replace(
        "            for x, y in self.loader:", "            self.start(epoch)\n            for x, y in self.loader:"
    )
    .replace(
        "    def run(self):", "    def start(self, epoch):\n        self.sampler.set_epoch(epoch)\n    def run(self):"
    ),
    BAD[0].replace("DistributedSampler(dataset)", "DistributedSampler(dataset, shuffle=False)"),
    BAD[0].replace("for epoch in range(10):", "if True:"),
)


def check(context: Context) -> Iterator[Finding]:
    """Find samplers that are iterated epoch after epoch and never told so."""
    if context.reading.made("accelerator") or context.reading.made("fabric"):
        return  # their prepared loaders set the epoch themselves
    told = context.trace.calls(".set_epoch")
    for sampler in context.reading.made("sampler"):
        if sampler.name != "torch.utils.data.DistributedSampler" or sampler.cls is not None:
            continue
        if context.value(sampler.argument(3, "shuffle"), True) is False or _shuffle_unknown(context, sampler):
            continue
        place = _epochs(context, sampler)
        if place is None or any(_about(e.receiver, sampler) for e in told):
            continue
        loop, epochs = place
        edit = _edit(context, sampler, epochs)
        yield context.finding(
            RULE,
            sampler,
            "set_epoch() is never called on this DistributedSampler: every epoch shuffles with the same seed and repeats the same order",
            evidence=[
                Evidence("calls of set_epoch on this sampler", 0),
                Evidence("line of the loop over epochs", getattr(epochs.node, "lineno", None)),
            ],
            fix=Fix(
                title="call set_epoch(epoch) at the start of each epoch",
                edits=edits(edit) if edit is not None else (),
                instruction="call sampler.set_epoch(epoch) before the loader is iterated",
                expected="each epoch has its own order",
            ),
            related=[(loop.backwards[0], "the training loop that iterates its loader")],
        )


def _shuffle_unknown(context: Context, sampler: Obj) -> bool:
    given = sampler.argument(3, "shuffle")
    return sampler.open_args or (given is not None and context.value(given) is None)


def _epochs(context: Context, sampler: Obj) -> tuple[TrainingLoop, Frame] | None:
    """The training loop over the sampler's loader and the loop around it, where there are both."""
    for loop in context.reading.loops:
        loops = [loop.frame, *loop.outer] if loop.micro is None else [loop.micro, loop.frame, *loop.outer]
        for inner, outer in pairwise(loops):
            if isinstance(inner.node, (ast.For, ast.AsyncFor)) and any(
                p is sampler for p in provenance(inner.value, 300)
            ):
                return loop, outer
    return None


def _about(receiver: Value | None, sampler: Obj) -> bool:
    """Whether ``receiver.set_epoch`` can reach the sampler: it is the sampler, its loader, or not known."""
    for option in options_of(receiver):
        if isinstance(option, Unknown) or any(part is sampler for part in provenance(option, 300)):
            return True
    return False


def _edit(context: Context, sampler: Obj, epochs: Frame) -> Edit | None:
    """Insert the call where the sampler's variable and the epoch's are both plain names of one scope."""
    script, node = context.at(sampler)
    statement = context.statement(script, node)
    loop = epochs.node
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name) or epochs.script is not script:
        return None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or statement.value is not node:
        return None
    target = statement.targets[0]
    made = [f.node for f in sampler.context.frames() if f.kind == "call"] if sampler.context is not None else []
    used = [f.node for f in epochs.frames() if f.kind == "call"]
    same_scope = [id(n) for n in made] == [id(n) for n in used]
    if isinstance(target, ast.Name) and same_scope:
        return context.insert_before((script, loop.body[0]), f"{target.id}.set_epoch({loop.target.id})")
    return None
