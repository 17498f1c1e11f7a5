"""A sampler is given one weight for each class.

## What it does
Looks for a `WeightedRandomSampler` whose weights are the counts of the classes, turned round, and were not looked up for each sample.

## Why
The sampler takes one weight for each sample and draws indices of that list.
With ten classes it gets ten weights, and draws the samples 0 to 9 again and again: the network is trained on ten samples, and nothing raises.

## Fix
Look up the weight of each sample by its label: `weights = class_weights[labels]`.

## When to ignore
Never: the sampler cannot know the labels.

## References
- PyTorch documentation, `torch.utils.data.WeightedRandomSampler`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.values import Known, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="sampler-weighs-classes",
    code="DAT022",
    severity="error",
    confidence="likely",
    layer="D",
    tags=("data",),
)

BAD = (
    """
import numpy as np, torch
from torch.utils.data import WeightedRandomSampler
labels = np.load("labels.npy")
weights = 1.0 / np.bincount(labels)
sampler = WeightedRandomSampler(weights, num_samples=len(labels), replacement=True)
""",
    """
import torch
import torch.utils.data as tud
def inverse(counts):
    return counts.sum() / counts.float()
labels = torch.load("labels.pt")
sampler = tud.WeightedRandomSampler(inverse(torch.bincount(labels)).double(), len(labels))
""",
    """
import argparse
import numpy as np, torch
from torch.utils.data.sampler import WeightedRandomSampler as Weighted
parser = argparse.ArgumentParser()
parser.add_argument("--power", type=float, default=0.5)
args = parser.parse_args()
labels = np.load("labels.npy")
classes, counts = np.unique(labels, return_counts=True)
sampler = Weighted(torch.from_numpy((1.0 / counts) ** args.power), len(labels))
""",
)
GOOD = (
    """
import numpy as np, torch
from torch.utils.data import WeightedRandomSampler
labels = np.load("labels.npy")
weights = 1.0 / np.bincount(labels)
sampler = WeightedRandomSampler(torch.as_tensor(weights[labels]), num_samples=len(labels))
listed = WeightedRandomSampler([weights[label] for label in labels], len(labels))
""",
    """
import numpy as np, torch
from torch.utils.data import WeightedRandomSampler
labels = torch.load("labels.pt")
per_class = 1.0 / torch.bincount(labels)
first = WeightedRandomSampler(torch.gather(per_class, 0, labels), len(labels))
classes, where, counts = np.unique(labels, return_inverse=True, return_counts=True)
second = WeightedRandomSampler((1.0 / counts)[where], len(labels))
""",
)
_SAMPLERS = ("torch.utils.data.WeightedRandomSampler", "torch.utils.data.sampler.WeightedRandomSampler")
_COUNTS = (
    "numpy.bincount",
    "torch.bincount",
    "sklearn.utils.class_weight.compute_class_weight",
    "sklearn.utils.compute_class_weight",
)
_SAME = frozenset(
    (
        "torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.FloatTensor", "torch.DoubleTensor", "torch.Tensor",
        "torch.reciprocal", "torch.sqrt", "numpy.array", "numpy.asarray", "numpy.sqrt", "numpy.reciprocal", "builtins.list",
        ".float", ".double", ".to", ".cpu", ".numpy", ".astype", ".tolist", ".reciprocal", ".sqrt", ".pow", ".type",
        ".clamp", ".clip", ".copy", ".clone",
    )
)  # fmt: skip


def check(context: Context) -> Iterator[Finding]:
    """Find samplers whose weights are as many as the classes."""
    for event in context.trace.calls(*_SAMPLERS):
        counts = _counts(event.argument(0, "weights"))
        if counts is None or event.context.shadow:
            continue
        name = counts.name.rpartition(".")[2]
        yield context.finding(
            RULE,
            event,
            f"WeightedRandomSampler is given one weight for each class ({name}) where it takes one for each sample: it draws the first "
            "samples alone, as many as there are classes",
            evidence=[Evidence("weights made by", counts.name)],
            related=[(counts, "one number for each class")],
            fix=Fix(
                title="look up the weight of each sample",
                instruction="index the weights with the labels before they are given to the sampler: weights[labels]",
                expected="all samples are drawn, those of rare classes more often",
            ),
        )


def _counts(value: Value | None, depth: int = 0) -> Obj | None:
    """The count of classes that weights are computed of number by number; None once they were looked up for samples."""
    base = settle(value) if value is not None else None
    if not isinstance(base, Obj) or depth > 15:
        return None
    if base.name in _COUNTS:
        return base
    if base.kind == "item":
        made = settle(base.receiver) if base.receiver is not None else None
        unique = isinstance(made, Obj) and made.name in ("numpy.unique", "torch.unique")
        return made if unique and isinstance(made, Obj) and _is_counts(base, made) else None
    if base.kind == "op":
        if base.name not in ("/", "*", "**", "+", "-"):
            return None
        found = [_counts(side, depth + 1) for side in base.args]
        # A number or a sum beside the counts changes how large they are, and not how many.
        others = [settle(side) for side, count in zip(base.args, found, strict=True) if count is None]
        single = all(
            isinstance(o, Known) or (isinstance(o, Obj) and o.name in (".sum", ".max", ".min", ".mean")) for o in others
        )
        return next((count for count in found if count is not None), None) if single else None
    if base.kind != "call" or base.name not in _SAME:
        return None
    return _counts(base.receiver if base.name.startswith(".") else base.args[0] if base.args else None, depth + 1)


def _is_counts(item: Obj, made: Obj) -> bool:
    """Whether an item of what ``unique`` returned is the counts: the last of what was asked for."""
    asked = [k for k in ("return_index", "return_inverse", "return_counts") if _true(made.kwargs.get(k))]
    index = settle(item.args[0]) if item.args else None
    return "return_counts" in asked and isinstance(index, Known) and index.value in (len(asked), -1)


def _true(value: Value | None) -> bool:
    base = settle(value) if value is not None else None
    return isinstance(base, Known) and base.value is True
