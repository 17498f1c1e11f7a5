"""Gradients are synchronised at every accumulated batch.

## What it does
Looks for gradient accumulation with a `DistributedDataParallel` model and neither `no_sync()` nor `require_backward_grad_sync`; and for the flag being set after the forward pass that has to see it.

## Why
DDP averages all gradients over all ranks during each `backward()`.
With k batches per step, k - 1 of the k all-reduces are for nothing: 4 bytes per parameter each, twice over the wire in a ring.
DDP reads the flag in its forward: set between forward and backward, it counts one batch too late, and the last batch may not be synchronised at all.

## Fix
Run all but the last batch of a step under `model.no_sync()`, forward included.

## When to ignore
When memory is so short that gradients are freed after each reduction.

## References
- PyTorch documentation, `torch.nn.parallel.DistributedDataParallel.no_sync`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.updates import Update, accumulation, managed, updates
from preflight.check.rule import Rule
from preflight.source.trace import Event, Store
from preflight.source.training import same
from preflight.source.values import Obj, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="gradients-synchronised-every-micro-batch",
    code="ACC004",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "optimizer"),
    layer="D",
    tags=("accumulation", "distributed"),
)

BAD = (
    """
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(nn.Linear(10, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(data):
    (nn.functional.cross_entropy(model(x), y) / 4).backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    """
from torch.optim import Adam as A
import torch.nn as nn
class Trainer:
    def __init__(self, every=8):
        self.every = every
        self.net = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
        self.opt = A(self.net.parameters())
    def train(self):
        for step in range(100):
            for micro in range(self.every):
                loss = self.net(next(batches)).mean() / self.every
                self.net.require_backward_grad_sync = micro == self.every - 1
                loss.backward()
            self.opt.step()
            self.opt.zero_grad()
Trainer().train()
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=4)
args = parser.parse_args()
net = torch.nn.Linear(4, 1)
net = torch.nn.parallel.DistributedDataParallel(net)
opt = torch.optim.Adam(net.parameters())
def update(i):
    if (i + 1) % args.accumulate == 0:
        opt.step()
        opt.zero_grad()
for i, x in enumerate(data):
    (net(x).mean() / args.accumulate).backward()
    update(i)
""",
)

GOOD = (
    """
import contextlib, torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(nn.Linear(10, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(data):
    last = (i + 1) % 4 == 0
    with contextlib.nullcontext() if last else model.no_sync():
        (nn.functional.cross_entropy(model(x), y) / 4).backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
""",
    """
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(nn.Linear(10, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    for micro in range(4):
        model.require_backward_grad_sync = micro == 3
        (model(next(batches)).mean() / 4).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=1)
args = parser.parse_args()
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
opt = torch.optim.Adam(net.parameters())
for i, x in enumerate(data):
    (net(x).mean() / args.accumulate).backward()
    if (i + 1) % args.accumulate == 0:
        opt.step()
        opt.zero_grad()
""",
)

_DDP = "torch.nn.parallel.DistributedDataParallel"
_FLAG = "require_backward_grad_sync"


def check(context: Context) -> Iterator[Finding]:
    """Find accumulation with DDP and no (or a late) switch of the synchronisation."""
    wrappers = [e for e in context.trace.calls(_DDP) if not e.context.shadow]
    every = context.trace.calls(_DDP)
    if managed(context) or not every:
        return
    for update in updates(context):
        held = accumulation(update)
        if held is None:
            continue
        flags = [s for s in context.trace.stores if s.name == _FLAG]
        late = _late(context, update, flags)
        if late is not None:
            yield _finding(
                context,
                late,
                "the flag that holds back the synchronisation is set after the forward pass, which reads it",
                held.count,
                None,
            )
        elif (
            wrappers and not flags and not context.trace.calls(".no_sync") and held.count is not None and held.count > 1
        ):
            backward = update.backwards()[0]
            if held.kind == "test" and held.divisible is False:
                continue
            text = f"gradients are averaged over all ranks at each of {held.count} accumulated batches, and only the last time counts"
            yield _finding(context, backward, text, held.count, wrappers[0])


def _finding(context: Context, place: Event | Store, text: str, count: int | None, wrapper: Event | None) -> Finding:
    evidence = [Evidence("backwards per step", count)]
    if count is not None and wrapper is not None:
        evidence.append(Evidence("all-reduces per step that are not needed", count - 1, arithmetic=f"{count} - 1"))
    return context.finding(
        RULE,
        place,
        text,
        evidence=evidence,
        fix=Fix(
            title="run all but the last batch under no_sync()",
            safe=False,
            instruction="enter model.no_sync() around forward and backward of all but the last batch of a step, or set the flag before the forward",
            expected="one all-reduce per step",
        ),
        related=[(wrapper, "wrapped here")] if wrapper is not None else [],
    )


def _late(context: Context, update: Update, flags: list[Store]) -> Store | None:
    """A flag that is set between the forward and the backward of one pass, and not before that forward."""
    for store in flags:
        wrapper = [o for o in options_of(store.target, limit=4) if isinstance(o, Obj) and o.name == _DDP]
        loop = store.context.loops()[:1]
        if not wrapper or not loop:
            continue
        inside = [
            e
            for e in context.trace.calls("()")
            if e.context.within(loop[0]) and same(e.receiver, store.target) and e.context.loops()[:1] == loop
        ]
        backwards = [b for b in update.loop.backwards if b.context.within(loop[0])]
        if not inside or not backwards or any(s.number < inside[0].number and s.context.within(loop[0]) for s in flags):
            continue
        if inside[-1].number < store.number < backwards[-1].number:
            return store
    return None
