"""Every worker yields all samples of an iterable data set.

## What it does
Looks for an `IterableDataset` of the project that is read with several workers, whose class does not ask which worker it runs in, and whose workers nothing else tells apart.

## Why
Each worker has a copy of the data set and iterates over all of it.
With four workers every sample comes four times in each epoch: an epoch is four times as long, the schedule counts four times the steps, and metrics count each sample four times.

## Fix
Ask `torch.utils.data.get_worker_info()` in `__iter__` and yield only the worker's share: `itertools.islice(samples, info.id, None, info.num_workers)`.

## When to ignore
When each worker draws samples of its own by chance, so that nothing repeats.

## References
- PyTorch documentation, `torch.utils.data.IterableDataset`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import dataset_of, feeding, setting, source_loaders, torch_loaders
from preflight.check.rule import Rule
from preflight.source.values import Class, Func, Known, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="samples-repeated-by-workers",
    code="DAT020",
    severity="warning",
    confidence="likely",
    needs=("loader",),
    layer="D",
    tags=("data",),
)

BAD = (
    """
from torch.utils.data import DataLoader, IterableDataset
class Lines(IterableDataset):
    def __init__(self, path):
        self.path = path
    def __iter__(self):
        for line in open(self.path):
            yield line.split()
for batch in DataLoader(Lines("lines.txt"), batch_size=8, num_workers=4):
    print(batch)
""",
    """
import torch.utils.data as tud
class Base(tud.IterableDataset):
    pass
class Shards(Base):
    def __init__(self, files):
        self.files = files
    def samples(self):
        for file in self.files:
            yield from open(file)
    def __iter__(self):
        return iter(self.samples())
def build(files, workers):
    return tud.DataLoader(Shards(files), 8, num_workers=workers)
for batch in build(["a", "b"], 2):
    print(batch)
""",
    """
import argparse
from torch.utils.data import DataLoader, IterableDataset
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=8)
args = parser.parse_args()
class Numbers(IterableDataset):
    def __iter__(self):
        return iter(range(1000))
loader = DataLoader(Numbers(), batch_size=4, num_workers=args.workers)
for epoch in range(3):
    for batch in loader:
        print(batch)
""",
)
GOOD = (
    """
import itertools
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
class Lines(IterableDataset):
    def __init__(self, path):
        self.path = path
    def share(self):
        info = get_worker_info()
        return (0, 1) if info is None else (info.id, info.num_workers)
    def __iter__(self):
        first, step = self.share()
        yield from itertools.islice(open(self.path), first, None, step)
for batch in DataLoader(Lines("lines.txt"), batch_size=8, num_workers=4):
    print(batch)
""",
    """
import random
from torch.utils.data import DataLoader, IterableDataset
class Lines(IterableDataset):
    def __iter__(self):
        yield from open("lines.txt")
class Drawn(IterableDataset):
    def __iter__(self):
        while True:
            yield random.random()
for batch in DataLoader(Lines(), batch_size=8, num_workers=1):
    print(batch)
for batch in DataLoader(Drawn(), batch_size=8, num_workers=4):
    print(batch)
""",
)
_DRAWING = (
    "random",
    "randn",
    "randint",
    "rand",
    "choice",
    "sample",
    "shuffle",
    "randperm",
    "normal",
    "uniform",
    "integers",
    "permutation",
)
_TELLING = ("get_worker_info", "worker_info", "get_rank", "environ", "worker_id")


def check(context: Context) -> Iterator[Finding]:
    """Find iterable data sets of the project that several workers read alike."""
    iterated = {id(o) for frame in feeding(context).frames for o in source_loaders(context, frame.value)}
    for loader in torch_loaders(context):
        workers = setting(loader, "num_workers")
        if not isinstance(workers, int) or workers < 2 or id(loader) not in iterated or _told_apart(loader):
            continue
        dataset = dataset_of(loader)
        if not isinstance(dataset, Obj) or dataset.cls is None or not _repeats(dataset.cls):
            continue
        name = dataset.cls.qualname
        yield context.finding(
            RULE,
            loader,
            f"each of the {workers} workers yields all samples of {name}, which does not ask which worker it runs in: every sample comes "
            f"{workers} times in an epoch",
            evidence=[Evidence("num_workers", workers), Evidence("data set", name)],
            related=[(dataset, "the data set")],
            fix=Fix(
                title="let each worker yield its share",
                instruction="in __iter__, ask torch.utils.data.get_worker_info() and yield every num_workers-th sample from id on",
                expected="each sample comes once in an epoch",
            ),
        )


def _told_apart(loader: Obj) -> bool:
    """Whether a function that each worker runs first may tell it what to read."""
    given = loader.kwargs.get("worker_init_fn")
    base = settle(given) if given is not None else None
    return loader.open_args or (base is not None and not (isinstance(base, Known) and base.value is None))


def _repeats(cls: Class) -> bool:
    """Whether a class yields the same samples in every worker: it is read whole, and neither asks nor draws."""
    if any(not base.endswith("data.IterableDataset") for base in cls.external_bases() if base not in _PLAIN):
        return False
    own = cls.lookup("__iter__")
    if not isinstance(own, Func):
        return False
    for part in cls.lineage:
        for node in ast.walk(part.node):
            word = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            if word in _TELLING or word in _DRAWING or _hands_over(node):
                return False
    return True


_PLAIN = ("builtins.object", "abc.ABC", "typing.Generic")
_BUILTIN = frozenset("iter range len open zip enumerate map filter list tuple sorted reversed int float str min max sum super isinstance print next set dict".split())  # fmt: skip


def _hands_over(node: ast.AST) -> bool:
    """Whether a call of a plain name may do the asking elsewhere: it is neither a builtin nor written as a type."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    return node.func.id not in _BUILTIN and not node.func.id[:1].isupper()
