"""The iterator of a loader is rebuilt in each step.

## What it does
Looks for `next(iter(loader))`, and for a `DataLoader` that is made, in each pass of a training loop.

## Why
`iter(loader)` starts an epoch: it draws a new permutation, starts the worker processes, and throws away what the workers of the last one had prepared.
Without shuffling it is worse than slow: each step gets the first batch, and the rest of the data is never seen.

## Fix
Make the iterator once before the loop, and again where it ends (`StopIteration`); or loop over the loader.

## When to ignore
When the loader is meant to yield one random batch, and has no workers.

## References
- PyTorch documentation, `torch.utils.data`, "Multi-process data loading"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import TORCH, dataset_of, is_iterable_dataset, made_within, setting, source_loaders
from preflight.check.queries.steps import each_pass, inner_loops, step_loops
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import TrainingLoop
from preflight.source.values import Obj, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="iterator-rebuilt-in-loop",
    code="EFF006",
    severity="warning",
    confidence="likely",
    needs=("training_loop",),
    layer="S",
    tags=("data",),
)

_HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = TensorDataset(torch.zeros(100, 10), torch.zeros(100))
"""
_STEP = """
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    """
import torch
from torch.utils.data import DataLoader
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100):
    x, y = next(iter(DataLoader(samples, batch_size=4, shuffle=True)))
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(net(x), y).backward()
    optimizer.step()
""",
    _HEAD
    + """
loader = DataLoader(samples, batch_size=8, shuffle=True, num_workers=4)
for step in range(100000):
    x, y = next(iter(loader))
"""
    + _STEP,
    _HEAD
    + """
class Data:
    def __init__(self):
        self.loader = DataLoader(samples, batch_size=8)
    def batch(self):
        it = iter(self.loader)
        return next(it)
data = Data()
while True:
    x, y = data.batch()
"""
    + _STEP,
    _HEAD
    + """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100000)
args = parser.parse_args()
for step in range(args.steps):
    x, y = DataLoader(samples, batch_size=8, shuffle=True).__iter__().__next__()
"""
    + _STEP,
)
GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for video, y in DataLoader(videos, batch_size=1, shuffle=True):
    (clips,) = next(iter(DataLoader(TensorDataset(video[0]), batch_size=4)))
    optimizer.zero_grad()
    nn.functional.mse_loss(net(clips), y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = nn.Linear(10, 8), nn.Linear(8, 2)
    def forward(self, video):
        with torch.no_grad():
            parts = [self.backbone(clips) for clips in DataLoader(Clips(video), batch_size=4)]
        return self.head(torch.cat(parts).mean(0, keepdim=True))
net = Net()
optimizer = torch.optim.SGD(net.head.parameters(), lr=0.1)
for video, y in DataLoader(videos, batch_size=1, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(video), y).backward()
    optimizer.step()
""",
    _HEAD
    + """
loader = DataLoader(samples, batch_size=8, shuffle=True, num_workers=4)
it = iter(loader)
for step in range(100000):
    try:
        x, y = next(it)
    except StopIteration:
        it = iter(loader)
        x, y = next(it)
"""
    + _STEP,
    _HEAD
    + """
loader = DataLoader(samples, batch_size=8, shuffle=True, num_workers=4)
held_out = DataLoader(samples, batch_size=8, shuffle=True)
for step, (x, y) in enumerate(loader):
    if step % len(loader) == 0:
        again = iter(loader)
    if step % 100 == 0:
        print(model(next(iter(held_out))[0]))
"""
    + _STEP,
)


def check(context: Context) -> Iterator[Finding]:
    """Find epochs that are started in each step."""
    for loop in step_loops(context):
        for event in context.trace.calls("builtins.iter", TORCH):
            if not event.context.within(loop.frame) or not each_pass(event.context, loop.frame):
                continue
            if inner_loops(event.context, loop.frame) or _looped(event, loop):
                continue
            made = event.name == TORCH
            sources = (
                options_of(event.result)
                if made
                else iter(source_loaders(context, event.args[0] if event.args else None))
            )
            loader = next((o for o in sources if isinstance(o, Obj)), None)
            if loader is None or (not made and not _drawn(context, event)):
                continue
            at = loader.context
            if not made and at is not None and at.within(loop.frame) and each_pass(at, loop.frame):
                continue  # made in each step itself, which is said of it, or not
            if made and setting(loader, "num_workers") == 0 and made_within(loader, loop.frame):
                continue  # the parts of one sample, one after the other
            yield _finding(context, event, loader, made)


def _finding(context: Context, event: Event, loader: Obj, made: bool) -> Finding:
    shuffle = setting(loader, "shuffle") if loader.name == TORCH else None
    first = (
        shuffle is False
        and setting(loader, "sampler") is None
        and setting(loader, "batch_sampler") is None
        and _map_style(loader)
    )
    workers = setting(loader, "num_workers")
    if made:
        told = "a DataLoader is made in each step: its workers start anew and what they prepared is thrown away"
    elif first:
        told = "the iterator is made anew in each step and the loader does not shuffle: each step trains on the first batch"
    else:
        told = "the iterator is made anew in each step: a new permutation is drawn, workers start, and what they prepared is thrown away"
    return context.finding(
        RULE,
        event,
        told,
        evidence=[
            Evidence("made", "in each step"),
            Evidence("num_workers", workers if isinstance(workers, int) else None),
            Evidence("shuffle", shuffle if isinstance(shuffle, bool) else None),
        ],
        related=[(loader, "the loader")] if not made else (),
        fix=Fix(
            title="make the iterator once",
            instruction="call iter(loader) before the loop and again on StopIteration, or write `for batch in loader:`",
            expected="workers keep preparing the next batches; each sample is seen once per epoch",
        ),
        severity="error" if first and not made else None,
    )


def _map_style(loader: Obj) -> bool:
    """Whether the dataset is known and is not an iterable one, nor one that draws at random."""
    dataset = dataset_of(loader)
    return (
        isinstance(dataset, Obj) and dataset.cls is None and dataset.kind == "call" and not is_iterable_dataset(dataset)
    )


def _drawn(context: Context, event: Event) -> bool:
    """Whether batches are drawn from the iterator by ``next``."""
    wanted = {id(o) for o in options_of(event.result)}
    return any(id(o) in wanted for e in context.trace.calls("builtins.next") for a in e.args[:1] for o in options_of(a))


def _looped(event: Event, loop: TrainingLoop) -> bool:
    """Whether the training loop itself goes over what is made: ``for batch in DataLoader(...)``."""
    value = loop.frame.value
    return value is not None and settle(value) is event.result
