"""A transform is set on a part of a data set.

## What it does
Looks for `part.transform = ...` on what `random_split` or `Subset` returned, and for `part.dataset.transform = ...` where another part of the same data set is trained on.

## Why
A part holds indices and the data set that it was taken from; it reads its samples through that.
`part.transform` is an attribute that nothing reads: the samples keep the old transform.
`part.dataset` is the whole data set, and all its parts share it: the transform that is meant for the evaluation is then the training's as well, and the augmentation is lost without a word.

## Fix
Make two data sets over the same files, each with its transform, and take the same indices of each; or wrap each part in a small data set that applies a transform of its own.

## When to ignore
When all parts shall have the new transform, and `part.dataset.transform` is a way to set it.

## References
- PyTorch documentation, `torch.utils.data.Subset`, `torch.utils.data.random_split`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import dataset_of, training_loaders
from preflight.check.queries.pictures import PARTS, random_step, title
from preflight.check.rule import Rule
from preflight.source.trace import Store
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="transform-set-on-part",
    code="DAT018",
    severity="warning",
    confidence="certain",
    layer="D",
    tags=("data",),
)

_HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, random_split
from torchvision import datasets, transforms as T
augment = T.Compose([T.RandomResizedCrop(64), T.ToTensor()])
plain = T.Compose([T.Resize((64, 64)), T.ToTensor()])
"""
_LOOP = """
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in train:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    _HEAD
    + """
first, second = random_split(datasets.ImageFolder("x", augment), [0.9, 0.1])
second.dataset.transform = plain
train, val = DataLoader(first, batch_size=8, shuffle=True), DataLoader(second, batch_size=8)
"""
    + _LOOP,
    _HEAD
    + """
import torch.utils.data as tud
def parts(whole, n):
    held_out = tud.Subset(whole, range(n))
    held_out.transform = plain
    return tud.Subset(whole, range(n, 1000)), held_out
first, second = parts(datasets.ImageFolder("x", augment), 100)
train, val = DataLoader(first, batch_size=8, shuffle=True), DataLoader(second, batch_size=8)
"""
    + _LOOP,
    _HEAD
    + """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--held-out", type=float, default=0.1)
args = parser.parse_args()
class Data:
    def __init__(self):
        self.parts = random_split(datasets.ImageFolder("x", augment), [1 - args.held_out, args.held_out])
        self.parts[1].dataset.transform = plain
data = Data()
train, val = DataLoader(data.parts[0], batch_size=8, shuffle=True), DataLoader(data.parts[1], batch_size=8)
"""
    + _LOOP,
)
GOOD = (
    _HEAD
    + """
first, _ = random_split(datasets.ImageFolder("x", augment), [0.9, 0.1], torch.Generator().manual_seed(0))
_, second = random_split(datasets.ImageFolder("x", augment), [0.9, 0.1], torch.Generator().manual_seed(0))
second.dataset.transform = plain
train, val = DataLoader(first, batch_size=8, shuffle=True), DataLoader(second, batch_size=8)
"""
    + _LOOP,
    _HEAD
    + """
import copy
first, second = random_split(datasets.ImageFolder("x"), [0.9, 0.1])
second.dataset = copy.copy(second.dataset)
first.dataset.transform = augment
second.dataset.transform = plain
whole = datasets.ImageFolder("y", plain)
whole.transform = augment
train, val = DataLoader(first, batch_size=8, shuffle=True), DataLoader(second, batch_size=8)
"""
    + _LOOP,
)


def check(context: Context) -> Iterator[Finding]:
    """Find transforms that are set where no sample is read through them, or where all samples are."""
    replaced = any(s.name == "dataset" for s in context.trace.stores)
    for store in context.trace.stores:
        if store.name not in ("transform", "transforms") or store.context.shadow:
            continue
        target = settle(store.target)
        if not isinstance(target, Obj) or target.cls is not None:
            continue
        if _part(target) is not None:
            yield _unread(context, store)
        elif target.kind == "attr" and target.name.rpartition(".")[2] == "dataset" and not replaced:
            whole = _part(target.receiver)
            trained = _trained_part(context, whole, target.receiver) if whole is not None else None
            if trained is not None and _overwritten(store, whole):
                yield _shared(context, store, trained)


def _part(value: Value | None) -> Obj | None:
    """The data set that a part was taken from; None where this is no part."""
    base = settle(value) if value is not None else None
    if isinstance(base, Obj) and base.kind == "item" and base.receiver is not None:
        base = settle(base.receiver)
        if not isinstance(base, Obj) or not base.name.endswith(".random_split"):
            return None
    if not isinstance(base, Obj) or base.name not in PARTS:
        return None
    whole = base.argument(0, "dataset")
    found = settle(whole) if whole is not None else None
    return found if isinstance(found, Obj) else None


def _trained_part(context: Context, whole: Obj | None, part: Value | None) -> Obj | None:
    """The loader that trains on another part of the same data set."""
    own = settle(part) if part is not None else None
    for loader in training_loaders(context):
        dataset = dataset_of(loader)
        if dataset is not own and _part(dataset) is whole:
            return loader
    return None


def _overwritten(store: Store, whole: Obj | None) -> bool:
    """Whether the data set was made with random transforms, which the new one replaces by others without."""
    before = (
        [v for v in (*whole.args, *whole.kwargs.values()) if random_step(v) is not None] if whole is not None else []
    )
    return bool(before) and random_step(store.value) is None


def _unread(context: Context, store: Store) -> Finding:
    return context.finding(
        RULE,
        store,
        f"a part of a data set reads its samples through the whole: {store.name} of the part is an attribute that nothing reads",
        evidence=[Evidence("set on", "a part of a data set")],
        fix=_fix(),
    )


def _shared(context: Context, store: Store, trained: Obj) -> Finding:
    settled = settle(store.value)
    name = title(settled) if isinstance(settled, Obj) and settled.name else "the new transform"
    return context.finding(
        RULE,
        store,
        "all parts share one data set: the part that is trained on gets this transform as well, and its random augmentation is lost",
        evidence=[Evidence("transform of all parts", name)],
        related=[(trained, "the loader that trains on another part")],
        fix=_fix(),
    )


def _fix() -> Fix:
    return Fix(
        title="give each part a data set with a transform of its own",
        instruction="make the data set twice, with the two transforms, and take the same indices of each with Subset",
        expected="training augments and evaluation does not",
    )
