"""Arguments of a DataLoader exclude each other.

## What it does
Looks for combinations of arguments that `DataLoader` refuses: `prefetch_factor` or `persistent_workers` without workers, `shuffle` or a sampler with an iterable dataset, and `batch_sampler` together with what it replaces.

## Why
The constructor raises a ValueError, so the run ends before its first step; on a cluster that is after the time in the queue.
With an option such as `--workers 0` the same script fails only for some people.

## Fix
Give only the arguments that go together; make `prefetch_factor` and `persistent_workers` depend on the number of workers.

## When to ignore
Never: the call cannot succeed with these values.

## References
- PyTorch documentation, `torch.utils.data.DataLoader`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.loaders import (
    UNKNOWN,
    dataset_of,
    given,
    is_iterable_dataset,
    set_argument,
    setting,
    torch_loaders,
)
from preflight.check.rule import Rule
from preflight.source.values import Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="loader-arguments-conflict",
    code="DAT009",
    severity="error",
    confidence="certain",
    needs=("loader",),
    layer="C",
    tags=("data",),
)

BAD = (
    """
from torch.utils.data import DataLoader
loader = DataLoader(data, batch_size=8, shuffle=True, persistent_workers=True)
""",
    """
import argparse
import torch.utils.data as tud
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()
def make(dataset):
    return tud.DataLoader(dataset, 8, num_workers=args.workers, prefetch_factor=4)
make(data)
""",
    """
from torch.utils.data import DataLoader as Loader, IterableDataset
class Lines(IterableDataset):
    def __iter__(self):
        yield from open("lines.txt")
class Data:
    shuffle = True
    def loader(self):
        return Loader(Lines(), batch_size=4, shuffle=self.shuffle)
Data().loader()
""",
    """
from torch.utils.data import BatchSampler, DataLoader, RandomSampler
batches = BatchSampler(RandomSampler(data), batch_size=8, drop_last=True)
loader = DataLoader(data, batch_sampler=batches, batch_size=8)
""",
)
GOOD = (
    """
import argparse
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()
loader = DataLoader(data, batch_size=8, num_workers=args.workers, persistent_workers=args.workers > 0,
                    prefetch_factor=2 if args.workers else None)
""",
    """
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler
class Lines(IterableDataset):
    def __iter__(self):
        yield from open("lines.txt")
a = DataLoader(Lines(), batch_size=4, shuffle=False)
b = DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 8, True), shuffle=False, batch_size=1)
c = DataLoader(data, batch_size=None, num_workers=2, prefetch_factor=4, persistent_workers=True)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find arguments that the constructor refuses."""
    for loader in torch_loaders(context):
        if loader.context is not None and loader.context.shadow:
            continue
        for name, value, other, shown, told, remedy in _conflicts(loader):
            edit = set_argument(context, loader, name, remedy) if remedy else None
            yield context.finding(
                RULE,
                loader,
                told,
                evidence=[Evidence(name, value), Evidence(other, shown)],
                fix=Fix(
                    title=f"make {name} and {other} agree",
                    edits=edits(edit) if edit is not None else (),
                    instruction=f"leave out {name}, or change {other}",
                    expected="the loader can be made",
                ),
            )
            break


_Conflict = tuple[str, str, str, str, str, str]


def _conflicts(loader: Obj) -> Iterator[_Conflict]:
    workers = setting(loader, "num_workers")
    if workers == 0 and workers is not False:
        prefetch = setting(loader, "prefetch_factor")
        if isinstance(prefetch, int) and prefetch:
            told = f"prefetch_factor={prefetch} with num_workers=0 raises a ValueError: without workers nothing is fetched ahead"
            yield "prefetch_factor", str(prefetch), "num_workers", "0", told, "None"
        if setting(loader, "persistent_workers") is True:
            told = "persistent_workers=True with num_workers=0 raises a ValueError: there are no workers to keep"
            yield "persistent_workers", "True", "num_workers", "0", told, "False"
    if is_iterable_dataset(dataset_of(loader)):
        if setting(loader, "shuffle") is True and _torch_iterable(loader):
            told = "shuffle=True with an iterable dataset raises a ValueError: the dataset yields its samples in its own order"
            yield "shuffle", "True", "dataset", "iterable", told, "False"
        for name in ("sampler", "batch_sampler"):
            if setting(loader, name) not in (None, UNKNOWN) or _is_thing(loader, name):
                told = f"{name} with an iterable dataset raises a ValueError: the dataset yields its samples in its own order"
                yield name, "given", "dataset", "iterable", told, ""
    if _is_thing(loader, "batch_sampler"):
        for name, default in (("batch_size", 1), ("shuffle", False), ("drop_last", False)):
            value = setting(loader, name)
            if value is not UNKNOWN and value != default and not (name == "shuffle" and value is None):
                told = f"{name}={value} together with batch_sampler raises a ValueError: the batch sampler decides it"
                yield name, str(value), "batch_sampler", "given", told, str(default)
                return


def _is_thing(loader: Obj, name: str) -> bool:
    """Whether a setting is given an object that is known to be one."""
    value = given(loader, name)
    base = settle(value) if value is not None else None
    return isinstance(base, Obj) and (base.kind == "instance" or base.name.rpartition(".")[2][:1].isupper())


def _torch_iterable(loader: Obj) -> bool:
    dataset = dataset_of(loader)
    return isinstance(dataset, Obj) and dataset.cls is not None
