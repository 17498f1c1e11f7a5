"""A data set sets a constant seed for each sample.

## What it does
Looks for `random.seed`, `numpy.random.seed` or `torch.manual_seed` with a constant in the `__getitem__` of a data set that is trained on.

## Why
From then on every sample draws the same random numbers: each picture is cropped at the same place and flipped alike, each sentence loses the same words, in every epoch.
The augmentation is one fixed change of the data, and without workers the shuffling of the loader and the dropout of the network start from that seed as well.

## Fix
Set the seed once, before the data set is made; give workers their seeds with `worker_init_fn` and the loader a `generator`.

## When to ignore
When the state of the generator is put back afterwards.

## References
- PyTorch documentation, "Reproducibility", DataLoader
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import dataset_of, training_loaders
from preflight.check.queries.pictures import whole_of
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Func, Known, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="seed-set-for-each-sample",
    code="DAT023",
    severity="warning",
    confidence="likely",
    needs=("loader", "training_loop"),
    layer="D",
    tags=("data", "reproducibility"),
)

_LOOP = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in loader:
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
"""

BAD = (
    """
import random
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        random.seed(0)
        return random.random() + i
loader = DataLoader(Rows(), batch_size=8)
"""
    + _LOOP,
    """
import numpy as np
import torch.utils.data as tud
def fix(seed=42):
    np.random.seed(seed)
class Rows(tud.Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        fix()
        return np.random.rand(4)
loader = tud.DataLoader(Rows(), batch_size=8)
"""
    + _LOOP,
    """
import argparse, torch
from torch.utils.data import DataLoader, Dataset
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=3)
args = parser.parse_args()
class Rows(Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        torch.manual_seed(args.seed)
        return torch.rand(4)
loader = DataLoader(Rows(), batch_size=8)
"""
    + _LOOP,
)
GOOD = (
    """
import random
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __init__(self):
        random.seed(0)
    def __len__(self):
        return 100
    def __getitem__(self, i):
        seed = random.randint(0, 2**31)
        random.seed(seed)
        image = random.random()
        random.seed(seed)
        return image, random.random()
loader = DataLoader(Rows(), batch_size=8)
"""
    + _LOOP,
    """
import random
import torch.utils.data as tud
class Noisy(tud.Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        random.seed(0)
        return random.random() + i
class Rows(Noisy):
    def __getitem__(self, i):
        return random.random() + i
for batch in tud.DataLoader(Noisy(), batch_size=8):
    print(batch)
loader = tud.DataLoader(Rows(), batch_size=8)
"""
    + _LOOP,
    """
import numpy as np, random, torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        state = random.getstate()
        random.seed(0)
        value = random.random()
        random.setstate(state)
        np.random.seed(i)
        return value + np.random.rand()
loader = DataLoader(Rows(), batch_size=8)
"""
    + _LOOP,
)
_SEEDS = ("random.seed", "numpy.random.seed", "torch.manual_seed", "torch.random.manual_seed")
_RESTORED = (
    "random.setstate",
    "numpy.random.set_state",
    "torch.set_rng_state",
    "torch.random.set_rng_state",
    "torch.random.fork_rng",
)


def check(context: Context) -> Iterator[Finding]:
    """Find constant seeds in what reads one sample of the data that are trained on."""
    trained = {
        id(method) for loader in training_loaders(context) if (method := _method(dataset_of(loader))) is not None
    }
    restored = {id(owner) for e in context.trace.calls(*_RESTORED) if (owner := _reader(e)) is not None}
    seen: set[int] = set()
    for event in context.trace.calls(*_SEEDS):
        reader = _reader(event)
        given = settle(event.args[0]) if event.args else None
        if (
            reader is None
            or id(reader) not in trained
            or id(reader) in restored
            or not isinstance(given, Known)
            or given.value is None
        ):
            continue
        if id(event.node) in seen or event.context.shadow:
            continue
        seen.add(id(event.node))
        yield context.finding(
            RULE,
            event,
            f"{event.name} sets the seed {given.value} for each sample: every sample draws the same random numbers, in every epoch",
            evidence=[Evidence("seed", str(given.value)), Evidence("inside", reader.qualname)],
            fix=Fix(
                title="set the seed once",
                instruction="set it before the data set is made; seed workers with worker_init_fn and shuffling with a generator",
                expected="each sample is changed in another way, and the run can still be repeated",
            ),
        )


def _method(dataset: Value | None) -> Value | None:
    """What reads one sample of a data set of the project, whole or behind its parts."""
    whole = whole_of(dataset)
    return whole.cls.lookup("__getitem__") if whole is not None and whole.cls is not None else None


def _reader(event: Event) -> Func | None:
    """The ``__getitem__`` of a data set that a call is made in, directly or by what it calls."""
    for frame in event.context.frames():
        func = frame.value
        if frame.kind in ("call", "root") and isinstance(func, Func) and func.qualname.endswith(".__getitem__"):
            bases = func.owner.external_bases() if func.owner is not None else []
            return func if any(b.startswith("torch.utils.data.") and b.endswith("Dataset") for b in bases) else None
    return None
