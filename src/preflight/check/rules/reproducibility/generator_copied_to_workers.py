"""A dataset's own random generator is copied to every worker.

## What it does
Looks for a generator that a dataset makes in `__init__` and draws from in `__getitem__`.
It speaks where workers read the dataset without worker_init_fn.

## Why
Each worker process gets a copy of the dataset, and with it a copy of the generator in the same state.
With 8 workers every random number is used 8 times per epoch, and again in the next epoch.
The augmentation is a fraction of what it seems to be.

## Fix
Draw from `torch` or `random`, which PyTorch seeds for each worker, or make the generator in worker_init_fn.

## When to ignore
When all items are meant to get the same numbers.

## References
- PyTorch, `torch.utils.data`, "Randomness in multi-process data loading"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import UNKNOWN, dataset_of, setting, torch_loaders
from preflight.check.queries.randomness import GENERATORS
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Func, Obj, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="generator-copied-to-workers",
    code="REP005",
    severity="warning",
    confidence="likely",
    needs=("loader",),
    tags=("reproducibility", "data"),
)

BAD = (
    """
import numpy as np
from torch.utils.data import DataLoader, Dataset
class Noisy(Dataset):
    def __init__(self, data):
        self.data = data
        self.rng = np.random.default_rng(0)
    def __len__(self):
        return len(self.data)
    def __getitem__(self, i):
        return self.data[i] + self.rng.normal()
loader = DataLoader(Noisy(data), batch_size=8, num_workers=4)
""",
    """
import argparse
from random import Random
from torch.utils import data as D
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=8)
args = parser.parse_args()
class Crops(D.Dataset):
    def __init__(self, images, seed):
        self.images, self.chance = images, Random(seed)
    def __len__(self):
        return 100
    def crop(self, image):
        x = self.chance.randint(0, 32)
        return image[x:x + 32]
    def __getitem__(self, i):
        return self.crop(self.images[i])
loader = D.DataLoader(Crops(images, 1), 16, num_workers=args.workers)
""",
    """
import torch
from numpy.random import RandomState as RS
class Flip:
    def __init__(self):
        self.state = RS(5)
    def __call__(self, x):
        return x.flip(-1) if self.state.rand() < 0.5 else x
class Set(torch.utils.data.Dataset):
    def __init__(self):
        self.flip = Flip()
    def __len__(self):
        return 10
    def __getitem__(self, i):
        return self.flip(torch.ones(3))
def loaders():
    return torch.utils.data.DataLoader(Set(), num_workers=2)
loaders()
""",
)

GOOD = (
    """
import numpy as np
from torch.utils.data import DataLoader, Dataset
class Noisy(Dataset):
    def __init__(self, data):
        self.data = data
        self.order = np.random.default_rng(0).permutation(len(data))
    def __len__(self):
        return len(self.data)
    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        return self.data[self.order[i]] + rng.normal()
loader = DataLoader(Noisy(data), batch_size=8, num_workers=4)
""",
    """
import numpy as np
from torch.utils.data import DataLoader, Dataset
class Noisy(Dataset):
    def __init__(self, data):
        self.data = data
        self.rng = np.random.default_rng(0)
    def __len__(self):
        return len(self.data)
    def __getitem__(self, i):
        return self.data[i] + self.rng.normal()
def start(worker):
    torch.utils.data.get_worker_info().dataset.rng = np.random.default_rng(worker)
a = DataLoader(Noisy(data), batch_size=8, num_workers=4, worker_init_fn=start)
b = DataLoader(Noisy(data), batch_size=8)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find draws in __getitem__ from generators that were made when the dataset was."""
    draws = _draws(context)
    told: set[int] = set()
    for loader in torch_loaders(context):
        workers, data = setting(loader, "num_workers"), dataset_of(loader)
        if not isinstance(workers, int) or workers < 1 or setting(loader, "worker_init_fn") is not None:
            continue
        if not isinstance(data, Obj) or workers is UNKNOWN or (loader.context is not None and loader.context.shadow):
            continue
        for owner, generator, draw in draws:
            if owner is data and id(generator) not in told and not _seeded_later(context, generator, draw):
                told.add(id(generator))
                yield _finding(context, generator, draw, workers, loader)


def _draws(context: Context) -> list[tuple[Value, Obj, Event]]:
    """Dataset, generator and draw of each draw inside __getitem__ from a generator that is older."""
    found = []
    for event in context.trace.events:
        if not event.name.startswith(".") or event.receiver is None:
            continue
        generator = next(
            (o for o in options_of(event.receiver, limit=3) if isinstance(o, Obj) and o.name in GENERATORS), None
        )
        if generator is None:
            continue
        for frame in event.context.frames():
            func = frame.value if frame.kind == "call" else None
            if isinstance(func, Func) and func.qualname.endswith((".__getitem__", ".__iter__")):
                inside = generator.context is not None and generator.context.within(frame)
                owner = _owner(context, frame.node)
                if not inside and owner is not None:
                    found.append((owner, generator, event))
                break
    return found


def _owner(context: Context, node: object) -> Value | None:
    """The dataset whose method a call frame is."""
    for event in context.trace.calls_under(""):
        if event.inlined and event.node is node and event.args and event.name.endswith((".__getitem__", ".__iter__")):
            return settle(event.args[0])
    return None


def _seeded_later(context: Context, generator: Obj, draw: Event) -> bool:
    return any(
        e.number < draw.number for e in context.trace.on(generator, "manual_seed", "seed") if e.context is draw.context
    )


def _finding(context: Context, generator: Obj, draw: Event, workers: int, loader: Obj) -> Finding:
    return context.finding(
        RULE,
        generator,
        f"the generator is made with the dataset and copied to each of {workers} workers: "
        "they all draw the same numbers, and the same again in the next epoch",
        evidence=[
            Evidence("workers", workers),
            Evidence("uses of each random number", workers, arithmetic="one per worker"),
        ],
        fix=Fix(
            title="draw from a generator that differs between workers",
            instruction="use torch's or Python's own generator, or make it in worker_init_fn from torch.initial_seed()",
            expected="every item has its own random numbers",
        ),
        related=[(draw, "it is drawn from here"), (loader, "the workers are started here")],
    )
