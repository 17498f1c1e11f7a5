"""What is evaluated is what was trained on.

## What it does
Looks for evaluations whose data are the training data: the same data set object, the same split of the same files, or the loader that is trained on, while the loader of held-out data is never read.

Where a data set of the same kind is made and no loader is given it, that is the one that was meant, and it is an error.
So is a loader of other data that is never read, where the loop that evaluates goes through the one that is trained on, unless what it finds is called a result of the training data, as in `train_accuracy`.

## Why
A network can learn its training data by heart.
A metric on them says nothing of new data: it rises while the network gets worse, and the best checkpoint and every choice of a setting that rest on it are wrong.
It is mostly a copied line in which `train=True`, or the name of the loader, was left.

## Fix
Give the evaluation the held-out split: `train=False`, `split="val"`, or the other part of `random_split`.

## When to ignore
When the metric on training data is wanted, to see whether a network can learn at all.

## References
- torchvision documentation, the arguments `train` and `split` of data sets
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.held_out import judged, same_data, unread_loaders, unread_sets
from preflight.check.queries.loaders import dataset_of, evaluation_loaders, feeding, torch_loaders, training_loaders
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.values import Func, Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="evaluation-on-training-data",
    code="DAT017",
    severity="warning",
    confidence="likely",
    needs=("loader", "training_loop"),
    layer="D",
    tags=("data", "evaluation"),
)

_HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler, TensorDataset
from torchvision import datasets, transforms as T
"""
_LOOPS = """
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in train:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
with torch.no_grad():
    for x, y in val:
        print((model(x).argmax(1) == y).sum())
"""
BAD = (
    _HEAD
    + """
train = DataLoader(datasets.CIFAR10("x", train=True, transform=T.Compose([T.RandomCrop(32), T.ToTensor()])), batch_size=8, shuffle=True)
val = DataLoader(datasets.CIFAR10("x", True, transform=T.ToTensor()), batch_size=8)
"""
    + _LOOPS,
    _HEAD
    + """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--data", default="rows.pt")
args = parser.parse_args()
def load(path):
    return TensorDataset(*torch.load(path))
rows = load(args.data)
held_out = load("held_out.pt")
train, val = DataLoader(rows, batch_size=8, shuffle=True), DataLoader(rows, batch_size=64)
"""
    + _LOOPS,
    _HEAD
    + """
def loaders():
    first = datasets.MNIST("x", train=True, transform=T.ToTensor())
    second = datasets.MNIST("x", train=False, transform=T.ToTensor())
    return DataLoader(first, batch_size=8, shuffle=True), DataLoader(second, batch_size=8)
train, test = loaders()
"""
    + _LOOPS.replace("in val", "in train"),
)
GOOD = (
    _HEAD
    + """
train = DataLoader(datasets.CIFAR10("x", train=True, transform=T.ToTensor()), batch_size=8, shuffle=True)
again = DataLoader(datasets.CIFAR10("x", train=True, transform=T.ToTensor()), batch_size=8)
val = DataLoader(datasets.CIFAR10("x", train=False, transform=T.ToTensor()), batch_size=8)
"""
    + _LOOPS
    + """
    for x, y in again:
        print((model(x).argmax(1) == y).sum())
""",
    _HEAD
    + """
whole = datasets.CIFAR10("x", train=True, transform=T.ToTensor())
train = DataLoader(whole, batch_size=8, sampler=SubsetRandomSampler(range(40000)))
val = DataLoader(whole, batch_size=8, sampler=SubsetRandomSampler(range(40000, 50000)))
"""
    + _LOOPS,
    _HEAD
    + """
train = DataLoader(datasets.CIFAR10("x", train=True, transform=T.ToTensor()), batch_size=8, shuffle=True)
val = DataLoader(datasets.CIFAR10("x", train=False, transform=T.ToTensor()), batch_size=8)
"""
    + _LOOPS
    + """
    for x, y in train:
        print((model(x).argmax(1) == y).sum())
""",
)


_MEASURES = r"acc|loss|eval|metric|score|error|check"


def check(context: Context) -> Iterator[Finding]:
    """Find evaluations that read nothing but training data."""
    if evaluation_loaders(context):
        yield from _same_split(context)
    else:
        yield from _same_loader(context)


def _same_split(context: Context) -> Iterator[Finding]:
    """All loaders that are evaluated on read the data that are trained on."""
    pairs = []
    trained = training_loaders(context)
    for loader in evaluation_loaders(context):
        found = next((t for t in trained if same_data(context, t, loader)), None)
        if found is None:
            return
        pairs.append((loader, found))
    for loader, first in pairs:
        if not any(judged(context, frame) for frame in feeding(context).evaluation.get(id(loader), [])):
            continue
        dataset, other = dataset_of(loader), dataset_of(first)
        name = (
            dataset.cls.qualname if isinstance(dataset, Obj) and dataset.cls else getattr(dataset, "name", "data set")
        )
        unread = unread_sets(context, dataset) if isinstance(dataset, Obj) and dataset is other else []
        yield context.finding(
            RULE,
            dataset if isinstance(dataset, Obj) else loader,
            f"the evaluation reads the data that are trained on ({name.rpartition('.')[2]}, "
            f"{'the same object' if dataset is other else 'the same split'}): its metric says nothing of new data",
            evidence=[
                Evidence("data set of the evaluation", name),
                Evidence("same object as in training", dataset is other),
                Evidence("data sets that no loader is given", len(unread)),
            ],
            severity="error" if unread else None,
            related=[(first, "the loader that is trained on"), (loader, "the loader that is evaluated on")],
            fix=_fix("make the loader over the held-out split (train=False, split=..., or the other part of a split)"),
        )


def _same_loader(context: Context) -> Iterator[Finding]:
    """A loop evaluates on the loader that is trained on, and another loader is never read."""
    if context.missing("complete") is not None:
        return
    feeds = feeding(context)
    unread = unread_loaders(context)
    trained = [o for o in torch_loaders(context) if id(o) in feeds.training]
    others = [o for o in unread if not any(same_data(context, t, o) for t in trained)]
    if not others:
        return
    for frame in feeds.frames:
        if frame in feeds.trained or not judged(context, frame) or frame.node is None or frame.script is None:
            continue
        loaders = feeds.fed_by(context, frame)
        if (
            len(loaders) != 1
            or loaders[0] not in trained
            or any(t.within(frame) or frame.within(t) for t in feeds.trained)
        ):
            continue
        yield context.finding(
            RULE,
            (frame.script, frame.node),
            "the evaluation goes through the loader that is trained on, and the other loader is never read: its metric says nothing of "
            "new data",
            evidence=[Evidence("loaders that are never read", len(others))],
            severity=None if _called_training(frame) else "error",
            related=[(loaders[0], "the loader that is trained on"), (others[0], "the loader that is never read")],
            fix=_fix("go through the loader of the held-out data"),
        )
        return


def _called_training(frame: Frame) -> bool:
    """Whether words around a loop that evaluates speak of training data: what it finds is meant to be of them."""
    if frame.node is None or frame.script is None:
        return False
    first = getattr(frame.node, "lineno", 0) - 4
    last = (getattr(frame.node, "end_lineno", None) or first) + 8
    near = [one for one in frame.script.nodes(ast.Name) if isinstance(one.ctx, ast.Store)]
    words = [one.id for one in near if first <= one.lineno <= last]
    texts = [one for one in frame.script.nodes(ast.Constant) if first <= one.lineno <= last]
    words += [one.value for one in texts if isinstance(one.value, str)]
    functions = [f.value for f in frame.frames() if f.kind == "call" and isinstance(f.value, Func)]
    words += [f.qualname.rpartition(".")[2] for f in functions[:1] if re.search(_MEASURES, f.qualname)]
    return any("train" in word.lower() for word in words)


def _fix(instruction: str) -> Fix:
    return Fix(
        title="evaluate on data that were not trained on",
        instruction=instruction,
        expected="the metric tells how the network does on new data",
    )
