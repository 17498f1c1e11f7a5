"""A loader that shuffles is gone through once and repeated by `itertools.cycle`.

## What it does
Looks for `itertools.cycle` of a `DataLoader` with `shuffle=True` or a random sampler.

## Why
`itertools.cycle` keeps what the first pass gave and gives it again: each further epoch has the same batches in the same order, with the same crops, flips and noise.
It also holds all batches of the dataset in memory.

## Fix
Begin the loader anew: `while True: yield from loader`, in a function of its own.

## When to ignore
When the cycle ends before the loader does. One that is made anew in each epoch, or over one batch of all samples, is not told.

## References
- Python documentation, `itertools.cycle`: "Make an iterator returning elements from the iterable and saving a copy of each"
- PyTorch issue 23900
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import given, setting, source_loaders, torch_loaders
from preflight.check.queries.stored_order import is_full_batch
from preflight.check.rule import Rule
from preflight.source.values import Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="shuffled-loader-cycled",
    code="DAT027",
    severity="warning",
    confidence="likely",
    needs=("loader", "training_loop"),
    layer="D",
    tags=("data",),
    beside=True,
)

_TRAIN = """
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(x, y):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    f"""
import itertools, torch
from torch import nn
from torch.utils.data import DataLoader
{_TRAIN}
batches = itertools.cycle(DataLoader(rows, batch_size=8, shuffle=True))
for step in range(1000):
    x, y = next(batches)
    train(x, y)
""",
    f"""
from itertools import cycle
import torch
from torch import nn
import torch.utils.data as tud
{_TRAIN}
labelled = tud.DataLoader(rows, 8, True)
unlabelled = tud.DataLoader(more, 8, True)
for (x, y), u in zip(cycle(labelled), unlabelled):
    train(x, y)
""",
    f"""
import itertools as it, torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler
{_TRAIN}
class Stream:
    def __init__(self, rows):
        self.loader = DataLoader(rows, batch_size=8, sampler=RandomSampler(rows))
        self.batches = iter(it.cycle(self.loader))
stream = Stream(rows)
for step in range(100):
    train(*next(stream.batches))
""",
)
GOOD = (
    f"""
import itertools, torch
from torch import nn
from torch.utils.data import DataLoader
{_TRAIN}
few = DataLoader(rows, batch_size=8, shuffle=True)
many = DataLoader(more, batch_size=8, shuffle=True)
for epoch in range(10):
    for (x, y), u in zip(itertools.cycle(few), many):
        train(x, y)
""",
    f"""
import torch
from torch import nn
from torch.utils.data import DataLoader
{_TRAIN}
def forever(loader):
    while True:
        yield from loader
batches = forever(DataLoader(rows, batch_size=8, shuffle=True))
for step in range(1000):
    train(*next(batches))
""",
    f"""
import itertools, torch
from torch import nn
from torch.utils.data import DataLoader
{_TRAIN}
batches = itertools.cycle(DataLoader(rows, batch_size=8))
rates = itertools.cycle([0.1, 0.01])
for step in range(1000):
    train(*next(batches))
""",
    f"""
import itertools, torch
from torch import nn
from torch.utils.data import DataLoader
{_TRAIN}
loader = DataLoader(rows, batch_size=8, shuffle=True)
for epoch in itertools.cycle(range(3)):
    for x, y in loader:
        train(x, y)
""",
    f"""
import itertools, torch
from torch import nn
from torch.utils.data import DataLoader
{_TRAIN}
batches = itertools.cycle(DataLoader(rows, batch_size=len(rows), shuffle=True))
for step in range(1000):
    train(*next(batches))
""",
    f"""
import itertools, torch
from torch import nn
from torch.utils.data import DataLoader
{_TRAIN}
loader, more = DataLoader(rows, batch_size=8, shuffle=True), DataLoader(others, batch_size=8, shuffle=True)
for epoch in range(3):
    for (x, y), u in zip(loader, itertools.cycle(more)):
        train(x, y)
""",
)
_RANDOM = ("torch.utils.data.RandomSampler", "torch.utils.data.SubsetRandomSampler")


def check(context: Context) -> Iterator[Finding]:
    """Find loaders with a random order that are repeated as they came."""
    own = torch_loaders(context)
    for event in context.trace.calls("itertools.cycle"):
        given_to = event.args[0] if event.args else None
        loader = next(
            (one for one in source_loaders(context, given_to) if one in own and _draws(one) and not is_full_batch(one)),
            None,
        )
        if loader is None or event.context.loops():
            continue  # one that is made in each epoch draws an order in each, and may end before it repeats
        yield context.finding(
            RULE,
            event,
            "cycle() keeps the batches of the first pass: this loader shuffles once, and each further epoch repeats that order, "
            "augmentations included",
            evidence=[Evidence("orders that are drawn", 1)],
            related=[(loader, "the loader")],
            fix=Fix(
                title="begin the loader anew for each pass",
                instruction="write a generator, `while True: yield from loader`, and take its batches instead",
                expected="each pass has an order and augmentations of its own, and no batch is kept",
            ),
        )


def _draws(loader: Obj) -> bool:
    """Whether a loader draws its order at random."""
    sampler = given(loader, "sampler")
    base = settle(sampler) if sampler is not None else None
    return setting(loader, "shuffle") is True or (isinstance(base, Obj) and base.name in _RANDOM)
