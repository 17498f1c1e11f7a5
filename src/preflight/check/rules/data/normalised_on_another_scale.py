"""Pictures are normalised by numbers of another scale.

## What it does
Follows the transforms of pictures, and compares what `Normalize` is given with its mean and standard deviation: numbers of the scale 0 to 255 for pictures between 0 and 1, or numbers below 1 for pictures between 0 and 255.

## Why
`ToTensor()` and `ToDtype(..., scale=True)` bring the integers 0 to 255 to 0 to 1; `ToDtype(torch.float32)` alone does not.
With a mean of 125 and a deviation of 63, pictures between 0 and 1 become numbers between -1.98 and -1.97: hardly any contrast is left.
With a mean of 0.5 and a deviation of 0.2, pictures between 0 and 255 become numbers up to 1272.
Nothing raises: the network trains slowly or not at all, and pretrained weights see what they never saw.

## Fix
Divide mean and standard deviation by 255, or multiply them, so that they are of the scale of the pictures; with the second version pass `scale=True` to `ToDtype`.

## When to ignore
When the network was trained on such numbers.

## References
- torchvision documentation, `torchvision.transforms.ToTensor`, `torchvision.transforms.v2.ToDtype`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.pictures import Stage, followed, numbers, title, transformed_once
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="normalised-on-another-scale",
    code="DAT014",
    severity="warning",
    confidence="certain",
    layer="D",
    tags=("data",),
)

BAD = (
    """
import torchvision.transforms as T
from torchvision.datasets import CIFAR10
transform = T.Compose([T.RandomCrop(32, padding=4), T.ToTensor(), T.Normalize((125.3, 123.0, 113.9), (63.0, 62.1, 66.7))])
data = CIFAR10("data", train=True, transform=transform)
""",
    """
import torch
from torchvision import datasets
from torchvision.transforms import v2
def build(mean, std):
    return v2.Compose([v2.Resize((64, 64)), v2.ToImage(), v2.ToDtype(torch.float32), v2.Normalize(mean, std)])
data = datasets.ImageFolder("data", build([0.5, 0.5, 0.5], [0.2, 0.2, 0.2]))
""",
    """
import argparse
from torchvision import transforms
parser = argparse.ArgumentParser()
parser.add_argument("--mean", type=float, nargs="+", default=[123.7, 116.3, 103.5])
args = parser.parse_args()
class Reader:
    transform = transforms.Compose([
        transforms.Resize((64, 64)), transforms.PILToTensor(), transforms.ConvertImageDtype(),
        transforms.Normalize(mean=args.mean, std=[58.4, 57.1, 57.4]),
    ])
""",
)
GOOD = (
    """
import torch
from torchvision import datasets, transforms as T
from torchvision.transforms import v2
a = T.Compose([T.ToTensor(), T.Normalize([125.3 / 255, 123.0 / 255, 113.9 / 255], [63.0 / 255] * 3)])
b = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32), v2.Normalize([125.3, 123.0, 113.9], [63.0, 62.1, 66.7])])
c = T.Compose([T.ToTensor(), T.Normalize([0.5] * 3, [1 / 255] * 3)])
d = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.5])])
sets = [datasets.CIFAR10("x", transform=t) for t in (a, b, c, d)]
""",
    """
from torchvision import datasets, transforms as T
scaled = T.Compose([T.ToTensor(), T.Lambda(lambda x: x * 255), T.Normalize([125.3, 123.0, 113.9], [63.0, 62.1, 66.7])])
data = datasets.CIFAR10("x", transform=scaled)
from_array = T.Compose([T.ToTensor(), T.Normalize([104.0, 117.0, 123.0], [1.0, 1.0, 1.0])])
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find ``Normalize`` whose numbers do not fit what it is given."""
    if not transformed_once(context):
        return
    for place, stages in followed(context):
        for stage in stages:
            if stage.step is None or title(stage.step) != "Normalize":
                continue
            told = _off(stage)
            if told is None:
                continue
            given, low, high, mean, std = told
            first = f"({low:g} - {mean:g}) / {std:g} = {(low - mean) / std:.3g}"
            last = f"({high:g} - {mean:g}) / {std:g} = {(high - mean) / std:.3g}"
            yield context.finding(
                RULE,
                stage.step,
                f"Normalize is given {given} and has a mean of {mean:g} and a standard deviation of {std:g}: the inputs lie between "
                f"{(low - mean) / std:.3g} and {(high - mean) / std:.3g}",
                evidence=[
                    Evidence("lowest input", (low - mean) / std, None, "derived", first),
                    Evidence("highest input", (high - mean) / std, None, "derived", last),
                ],
                related=[(place, "the data set")] if place is not None else [],
                fix=Fix(
                    title="give Normalize numbers of the scale of the pictures",
                    instruction="divide mean and standard deviation by 255"
                    if high == 1
                    else "pass scale=True to ToDtype, or multiply mean and standard deviation by 255",
                    expected="the inputs have mean 0 and standard deviation 1",
                ),
            )


def _off(stage: Stage) -> tuple[str, float, float, float, float] | None:
    """What the pictures are, between which numbers, and a mean and a deviation that do not fit them."""
    if stage.step is None or stage.kind not in ("unit", "raw"):
        return None
    means, deviations = numbers(stage.step.argument(0, "mean")), numbers(stage.step.argument(1, "std"))
    if not means or not deviations:
        return None
    # A mean outside the scale, with a deviation of the same other scale: constants such as (0, 1/255) are meant so.
    if stage.kind == "unit" and min(means) > 1 and min(deviations) > 1:
        return "pictures between 0 and 1", 0.0, 1.0, means[0], deviations[0]
    if stage.kind == "raw" and 0 < max(means) < 1 and max(deviations) < 1:
        return "pictures between 0 and 255", 0.0, 255.0, means[0], deviations[0]
    return None
