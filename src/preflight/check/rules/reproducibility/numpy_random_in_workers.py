"""NumPy's global generator is used in workers.

## What it does
Looks for `numpy.random` functions in the `__getitem__` of a dataset that is read by workers without worker_init_fn.

## Why
Before PyTorch 1.9 the workers do not seed NumPy: all of them draw the same numbers, in every epoch the same.
Since 1.9 PyTorch seeds NumPy in each worker, and all is well.

## Fix
Use PyTorch 1.9 or later, or seed NumPy in worker_init_fn.

## When to ignore
When PyTorch 1.9 or later is installed.

## References
- PyTorch 1.9 release notes; pytorch/pytorch issue 5059
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.loaders import dataset_of, setting, torch_loaders
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Func, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="numpy-random-in-workers",
    code="REP006",
    severity="info",
    confidence="possible",
    needs=("loader",),
    tags=("reproducibility", "data"),
)
_HARMLESS = ("numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.seed", "numpy.random.Generator")

BAD = (
    """
import numpy as np
from torch.utils.data import DataLoader, Dataset
class Noisy(Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        return data[i] + np.random.randn()
loader = DataLoader(Noisy(), batch_size=8, num_workers=4)
""",
    """
import argparse
from numpy import random as chance
from torch.utils import data as D
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=8)
args = parser.parse_args()
def jitter(x):
    return x * chance.uniform(0.9, 1.1)
class Set(D.Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        return jitter(data[i])
loader = D.DataLoader(Set(), num_workers=args.workers)
""",
    """
import numpy
import torch
class Base(torch.utils.data.Dataset):
    def __len__(self):
        return 10
    def augment(self, x):
        return x if numpy.random.rand() < 0.5 else -x
class Child(Base):
    def __getitem__(self, i):
        return self.augment(data[i])
def loaders():
    return torch.utils.data.DataLoader(Child(), num_workers=2)
loaders()
""",
)

GOOD = (
    """
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
class Noisy(Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        return data[i] + np.random.randn()
def start(worker):
    np.random.seed(torch.initial_seed() % 2**32)
a = DataLoader(Noisy(), batch_size=8, num_workers=4, worker_init_fn=start)
b = DataLoader(Noisy(), batch_size=8, num_workers=0)
""",
    """
import numpy as np
from torch.utils.data import DataLoader, Dataset
class Shuffled(Dataset):
    def __init__(self):
        self.order = np.random.permutation(100)
    def __len__(self):
        return 100
    def __getitem__(self, i):
        return data[self.order[i]]
loader = DataLoader(Shuffled(), batch_size=8, num_workers=4)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find draws of NumPy's global generator in __getitem__."""
    draws = [
        e for e in context.trace.calls_under("numpy.random.") if e.name not in _HARMLESS and _getter(e) is not None
    ]
    if not draws:
        return
    for loader in torch_loaders(context):
        data = dataset_of(loader)
        workers = setting(loader, "num_workers")
        cls = getattr(settle(data), "cls", None) if data is not None else None
        if not isinstance(workers, int) or workers < 1 or setting(loader, "worker_init_fn") is not None or cls is None:
            continue
        for draw in draws:
            owner = _getter(draw)
            if owner is not None and owner in cls.lineage:
                yield _finding(context, draw, workers, loader)
                return


def _getter(event: Event) -> object:
    """The class in whose __getitem__ an event happens."""
    for frame in event.context.frames():
        if frame.kind == "call" and isinstance(frame.value, Func) and frame.value.qualname.endswith(".__getitem__"):
            return frame.value.owner
    return None


def _finding(context: Context, draw: Event, workers: int, loader: object) -> Finding:
    made = context.reading.event_of(loader)  # type: ignore[arg-type]
    return context.finding(
        RULE,
        draw,
        f"{draw.name} draws in {workers} workers that nothing seeds: before PyTorch 1.9 all draw the same numbers",
        evidence=[Evidence("workers", workers), Evidence("worker_init_fn", "not given")],
        fix=Fix(
            title="seed NumPy in each worker",
            edits=edits(),
            instruction="pass worker_init_fn=lambda worker: numpy.random.seed(torch.initial_seed() % 2**32)",
            expected="every worker draws its own numbers",
        ),
        related=[(made, "the workers are started here")] if made is not None else [],
    )
