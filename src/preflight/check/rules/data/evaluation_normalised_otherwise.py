"""Held-out data are normalised otherwise than training data.

## What it does
Compares the `Normalize` of the pictures that are trained on with that of the pictures that are evaluated: one has none, or its numbers differ by more than a tenth of a standard deviation.

## Why
A network learns for inputs of one scale and one centre.
Pictures that come without the same shift and scale are of another distribution, and the metric drops for a reason that is not the network's.
The same goes for the deployed network, whose inputs have to be normalised as in training.

## Fix
Use the same `Normalize`, with the numbers of the training data, in both transforms.

## When to ignore
When the network itself normalises its inputs, or two domains are compared on purpose.

## References
- torchvision, references/classification: both presets have the same Normalize
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import dataset_of, evaluation_loaders, training_loaders
from preflight.check.queries.pictures import Given, given_transform, numbers, title, transformed_once
from preflight.check.rule import Rule
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="evaluation-normalised-otherwise",
    code="DAT016",
    severity="warning",
    confidence="likely",
    needs=("loader", "training_loop"),
    layer="D",
    tags=("data", "evaluation"),
)

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
_HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms as T
"""
BAD = (
    _HEAD
    + """
a = T.Compose([T.RandomCrop(32, padding=4), T.ToTensor(), T.Normalize((0.49, 0.48, 0.45), (0.2, 0.2, 0.2))])
train = DataLoader(datasets.CIFAR10("x", train=True, transform=a), batch_size=8, shuffle=True)
val = DataLoader(datasets.CIFAR10("x", train=False, transform=T.ToTensor()), batch_size=8)
"""
    + _LOOPS,
    _HEAD
    + """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--mean", type=float, default=0.1307)
args = parser.parse_args()
def build(mean, std):
    return T.Compose([T.ToTensor(), T.Normalize((mean,), (std,))])
train = DataLoader(datasets.MNIST("x", train=True, transform=build(args.mean, 0.3081)), batch_size=8, shuffle=True)
val = DataLoader(datasets.MNIST("x", train=False, transform=build(0.5, 0.5)), batch_size=8)
"""
    + _LOOPS,
    _HEAD
    + """
from torchvision.transforms import v2
class Pictures(torch.utils.data.Dataset):
    def __init__(self, files, transform):
        self.files, self.transform = files, transform
    def __getitem__(self, i):
        return self.transform(self.files[i])
    def __len__(self):
        return len(self.files)
plain = [v2.Resize((64, 64)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
train = DataLoader(Pictures(listed, v2.Compose(plain)), batch_size=8, shuffle=True)
val = DataLoader(Pictures(others, transform=v2.Compose([*plain, v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])), batch_size=8)
"""
    + _LOOPS,
)
GOOD = (
    _HEAD
    + """
norm = T.Normalize((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
other = T.Normalize((0.4942, 0.4851, 0.4504), (0.2020, 0.1991, 0.2011))
train = DataLoader(datasets.CIFAR10("x", train=True, transform=T.Compose([T.RandomCrop(32, padding=4), T.ToTensor(), norm])), batch_size=8, shuffle=True)
val = DataLoader(datasets.CIFAR10("x", train=False, transform=T.Compose([T.ToTensor(), other])), batch_size=8)
"""
    + _LOOPS,
    _HEAD
    + """
steps = [T.ToTensor(), T.Normalize((0.5,), (0.5,))]
train = DataLoader(datasets.MNIST("x", train=True, transform=T.Compose(steps)), batch_size=8, shuffle=True)
val = DataLoader(datasets.MNIST("x", train=False, transform=T.Compose([T.ToTensor(), T.Lambda(lambda x: (x - 0.5) / 0.5)])), batch_size=8)
"""
    + _LOOPS,
)
_TOLERANCE = 0.1
"""In standard deviations: statistics of the test split differ from those of the training split by far less."""


class Scale(NamedTuple):
    """The shift and the scale of pictures; without numbers where they are not normalised."""

    given: Given
    step: Obj | None
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __str__(self) -> str:
        """The numbers, as in the script."""
        return f"mean {list(self.mean)}, std {list(self.std)}" if self.step is not None else "not normalised"


def check(context: Context) -> Iterator[Finding]:
    """Find evaluations whose pictures are shifted and scaled otherwise than in training."""
    if not transformed_once(context):
        return
    trained = [_scale(given_transform(dataset_of(loader))) for loader in training_loaders(context)]
    if not trained or None in trained:
        return
    for loader in evaluation_loaders(context):
        found = _scale(given_transform(dataset_of(loader)))
        if found is None or any(one is None or not _differ(one, found) for one in trained):
            continue
        first = trained[0]
        if first is None:
            continue
        yield context.finding(
            RULE,
            found.given.dataset,
            f"the pictures that are evaluated are {_told(found)}, and those that are trained on are {_told(first)}: the network sees "
            "inputs of another scale than it learnt for",
            evidence=[Evidence("training", str(first)), Evidence("evaluation", str(found))],
            related=[
                (first.given.dataset, "the data set that is trained on"),
                (loader, "the loader that is evaluated on"),
            ],
            fix=Fix(
                title="normalise held-out pictures as in training",
                instruction="put the same Normalize, with the numbers of the training data, into both transforms",
                expected="training and evaluation see inputs of one scale",
            ),
        )


def _told(scale: Scale) -> str:
    return "not normalised" if scale.step is None else f"normalised by {scale}"


def _scale(given: Given | None) -> Scale | None:
    """How pictures are shifted and scaled; None where another step or an unknown number may do it."""
    if given is None or not given.stages or given.stages[-1].kind in (None, "picture", "image"):
        return None
    found = [s.step for s in given.stages if s.step is not None and title(s.step) == "Normalize"]
    if not found:
        return Scale(given, None, (), ())
    mean, std = numbers(found[0].argument(0, "mean")), numbers(found[0].argument(1, "std"))
    return Scale(given, found[0], tuple(mean), tuple(std)) if len(found) == 1 and mean and std else None


def _differ(one: Scale, other: Scale) -> bool:
    """Whether two data sets of one kind are of another scale."""
    same = one.given.dataset.cls is other.given.dataset.cls and one.given.dataset.name == other.given.dataset.name
    if not same or (one.step is None and other.step is None):
        return False
    if one.step is None or other.step is None:
        return True
    size = max(len(one.mean), len(other.mean))
    pairs = zip(*(_spread(v, size) for v in (one.mean, other.mean, one.std, other.std)), strict=True)
    return any(abs(a - b) > _TOLERANCE * abs(s) or abs(s - t) > _TOLERANCE * abs(s) for a, b, s, t in pairs)


def _spread(values: tuple[float, ...], size: int) -> tuple[float, ...]:
    """One number for each channel."""
    return values * size if len(values) == 1 else (*values, *values[-1:] * (size - len(values)))
