"""A transform is given what it refuses.

## What it does
Follows what the transforms of a `Compose` are given, and looks for one that cannot take it: `Normalize` on a PIL picture or on integers, `ToTensor` on a tensor, `RandAugment` on floats, means for three channels on pictures of one.

## Why
The order of transforms is not free.
PIL pictures become tensors of integers or of floats at one place, and each transform takes only some of these.
The wrong order raises a TypeError or a RuntimeError when the first sample is read, which with workers comes out of another process.

## Fix
Keep the order: crops, flips and augmentation on pictures, then `ToTensor()`, then `Normalize(...)` and `RandomErasing(...)`; with the second version `ToImage()`, augmentation, `ToDtype(torch.float32, scale=True)`, `Normalize(...)`.

## When to ignore
When the list is taken apart again, and its parts are applied in another order.

## References
- torchvision documentation, "Transforming images, videos, boxes and more"; what raises was tried with torchvision 0.29
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.pictures import (
    AUGMENT_BYTES,
    Stage,
    followed,
    numbers,
    second_version,
    title,
    transformed_once,
)
from preflight.check.rule import Rule
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="transform-refuses-its-input",
    code="DAT013",
    severity="error",
    confidence="likely",
    layer="D",
    tags=("data",),
)

BAD = (
    """
import torchvision.transforms as T
from torchvision.datasets import CIFAR10
transform = T.Compose([T.RandomCrop(32, padding=4), T.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)), T.ToTensor()])
data = CIFAR10("data", train=True, transform=transform)
""",
    """
import torch
from torchvision import datasets
from torchvision.transforms import v2
def build(mean, std):
    return v2.Compose([v2.Resize((64, 64)), v2.ToImage(), v2.Normalize(mean, std), v2.ToDtype(torch.float32, scale=True)])
data = datasets.ImageFolder("data", build([0.5, 0.5, 0.5], [0.2, 0.2, 0.2]))
""",
    """
import argparse
from torchvision import datasets, transforms
parser = argparse.ArgumentParser()
parser.add_argument("--mean", type=float, nargs="+", default=[0.485, 0.456, 0.406])
args = parser.parse_args()
data = datasets.MNIST("data", transform=transforms.Compose([transforms.ToTensor(), transforms.Normalize(args.mean, args.mean)]))
""",
    """
from torchvision import transforms
class Reader:
    def __init__(self):
        self.transform = transforms.Compose([transforms.CenterCrop(64), transforms.ToTensor(), transforms.RandAugment(), transforms.Normalize(0.5, 0.5)])
    def read(self, picture):
        return self.transform(picture)
Reader().read(picture)
""",
    """
from torchvision.transforms import Compose, Normalize, ToTensor
transform = Compose([Normalize([0.5], [0.5]), ToTensor()])
""",
)
GOOD = (
    """
import torch
from torchvision import datasets, transforms as T
from torchvision.transforms import v2
a = T.Compose([T.RandAugment(), T.ToTensor(), T.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)), T.RandomErasing()])
b = v2.Compose([v2.ToImage(), v2.RandAugment(), v2.ToDtype(torch.float32, scale=True), v2.RandAugment(), v2.Normalize([0.5], [0.5])])
c = T.Compose([T.Grayscale(3), T.ToTensor(), T.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))])
d = T.Compose([T.PILToTensor(), T.ConvertImageDtype(torch.float), T.Normalize((0.5,), (0.5,))])
sets = datasets.ImageFolder("x", a), datasets.CIFAR10("x", transform=b), datasets.MNIST("x", transform=c), datasets.CIFAR10("x", transform=d)
""",
    """
from torchvision import datasets, transforms as T
show = T.Compose([T.Normalize((0.0,), (5.0,)), T.Normalize((-0.5,), (1.0,)), T.ToPILImage(), T.Resize(64), T.ToTensor()])
gray = datasets.MNIST("x", transform=T.Compose([T.ToTensor(), T.Lambda(lambda x: x.repeat(3, 1, 1)), T.Normalize([0.5] * 3, [0.5] * 3)]))
""",
)
_KINDS = {
    "picture": "a PIL picture", "bytes": "a tensor of integers", "unit": "a tensor of floats", "raw": "a tensor of floats",
    "normalised": "a tensor of floats", "tensor": "a tensor",
}  # fmt: skip
_FLOATS = ("unit", "raw", "normalised")


def check(context: Context) -> Iterator[Finding]:
    """Find transforms that raise on what the one before gives."""
    if not transformed_once(context):
        return
    for place, stages in followed(context):
        for stage in stages:
            told = _refusal(stage)
            if told is None or stage.step is None:
                continue
            message, remedy = told
            yield context.finding(
                RULE,
                stage.step,
                message,
                evidence=[
                    Evidence("transform", title(stage.step)),
                    Evidence("what it is given", _KINDS.get(stage.kind or "", "a picture")),
                ],
                related=[(place, "the data set")] if place is not None else [],
                fix=Fix(
                    title="put the transforms in an order in which each takes what the one before gives",
                    instruction=remedy,
                    expected="the first batch can be read",
                ),
            )
            break


def _refusal(stage: Stage) -> tuple[str, str] | None:
    """What a transform raises on what it is given, and what to change; None where it takes it."""
    step, kind = stage.step, stage.kind
    if step is None:
        return None
    name, given = title(step), _KINDS.get(kind or "", "")
    if name == "Normalize":
        if kind in ("picture", "bytes"):
            return _raises(name, given, "floats alone", "put ToTensor() before Normalize (v2: ToImage and ToDtype)")
        return _channels(step, stage.channels)
    if second_version(step):
        return None
    if name in ("ToTensor", "PILToTensor") and kind not in (None, "picture", "image"):
        return _raises(name, given, "pictures and arrays alone", f"put {name}() where the pictures are still pictures")
    if name in ("ConvertImageDtype", "LinearTransformation", "RandomErasing") and kind == "picture":
        return _raises(name, given, "tensors alone", f"put ToTensor() before {name}")
    if name == "ToPILImage" and kind == "picture":
        return _raises(name, given, "tensors and arrays alone", "leave out ToPILImage()")
    if name in AUGMENT_BYTES and kind in _FLOATS:
        return _raises(name, given, "pictures and integers alone", f"put {name} before ToTensor()")
    return None


def _raises(name: str, given: str, takes: str, remedy: str) -> tuple[str, str]:
    return f"{name} is given {given} and takes {takes}: the first samples raise an error", remedy


def _channels(step: Obj, channels: int | None) -> tuple[str, str] | None:
    """Whether ``Normalize`` has as many means as the pictures have channels; one mean serves all."""
    for position, word in ((0, "mean"), (1, "std")):
        listed = numbers(step.argument(position, word))
        if listed is None or channels is None or len(listed) in (1, channels):
            continue
        if channels == 1 and second_version(step):
            continue  # the second version makes more channels of one
        told = f"Normalize has {len(listed)} numbers for {word} and the pictures have {channels} channel{'s' * (channels > 1)}: the first sample raises a RuntimeError"
        return told, f"give Normalize {channels} numbers, or bring the pictures to {len(listed)} channels before it"
    return None
