"""Training and evaluation share one dataset object and its random augmentation.

## What it does
Looks for a dataset with random transforms that `random_split` or `Subset` divides into a part that trains and a part that is evaluated.

## Why
Both parts read through the same dataset object, so the held-out part is augmented as well: the validation metric is measured on distorted samples, is lower than it should be, and changes from epoch to epoch with the same weights.

## Fix
Make two datasets, one with the training transform and one with the evaluation transform, and divide both with the same indices.

## When to ignore
When test-time augmentation is intended.

## References
- PyTorch documentation, `torch.utils.data.random_split`
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import dataset_of, evaluation_loaders, training_loaders
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import provenance
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="one-dataset-for-training-and-evaluation",
    code="DAT004",
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
        model(x)
"""
BAD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader, random_split
from torchvision import datasets, transforms as T
data = datasets.ImageFolder("x", transform=T.Compose([T.RandomResizedCrop(224), T.ToTensor()]))
first, second = random_split(data, [0.9, 0.1])
train = DataLoader(first, batch_size=8, shuffle=True)
val = DataLoader(second, batch_size=8)
"""
    + _LOOPS,
    """
import torch, torch.utils.data as tud
from torch import nn
from torchvision.transforms import ColorJitter, Compose, ToTensor
from torchvision.datasets import CIFAR10
def parts(whole, n):
    return tud.Subset(whole, range(n)), tud.Subset(whole, range(n, 50000))
a, b = parts(CIFAR10("x", transform=Compose([ColorJitter(0.4), ToTensor()])), 45000)
train, val = tud.DataLoader(a, 8, True), tud.DataLoader(b, 8)
"""
    + _LOOPS,
    """
import argparse, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split
from torchvision.transforms import v2
class Pictures(Dataset):
    def __init__(self, root, transform):
        self.transform = transform
    def __getitem__(self, i):
        return self.transform(self.files[i])
    def __len__(self):
        return len(self.files)
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=224)
args = parser.parse_args()
augment = v2.Compose([v2.RandomHorizontalFlip(), v2.RandomCrop(args.size)])
sets = random_split(Pictures("x", augment), [80, 20])
train, val = DataLoader(sets[0], 4, shuffle=True), DataLoader(sets[1], 4)
"""
    + _LOOPS,
)
GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader, random_split
from torchvision import datasets, transforms as T
data = datasets.ImageFolder("x", transform=T.Compose([T.Resize((224, 224)), T.ToTensor()]))
first, second = random_split(data, [0.9, 0.1])
train = DataLoader(first, batch_size=8, shuffle=True)
val = DataLoader(second, batch_size=8)
"""
    + _LOOPS,
    """
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset
from torchvision import datasets, transforms as T
augmented = datasets.ImageFolder("x", transform=T.Compose([T.RandomResizedCrop(224), T.ToTensor()]))
plain = datasets.ImageFolder("x", transform=T.Compose([T.Resize((224, 224)), T.ToTensor()]))
train = DataLoader(Subset(augmented, [0, 1]), batch_size=8, shuffle=True)
val = DataLoader(Subset(plain, [2, 3]), batch_size=8)
"""
    + _LOOPS,
)

_RANDOM = r"^torchvision\.transforms\.(v2\.)?(Random\w+|ColorJitter|AutoAugment|RandAugment|TrivialAugmentWide|AugMix|GaussianNoise|ElasticTransform)$"
_PARTS = ("torch.utils.data.random_split", "torch.utils.data.Subset")


def check(context: Context) -> Iterator[Finding]:
    """Find one dataset with random transforms behind a training and an evaluation loader."""
    trained = {id(base): base for loader in training_loaders(context) for base in _whole(dataset_of(loader))}
    for loader in evaluation_loaders(context):
        for base in _whole(dataset_of(loader)):
            random = _random_transform(base)
            if id(base) not in trained or random is None or _changed_later(context):
                continue
            name = random.name.rpartition(".")[2]
            yield context.finding(
                RULE,
                loader,
                f"held-out samples pass through the random transform {name}, because training and evaluation are parts of one dataset object",
                evidence=[
                    Evidence("random transform", name),
                    Evidence("dataset", base.cls.qualname if base.cls else base.name),
                ],
                related=[(base, "the dataset that both parts read through"), (random, "the random transform")],
                fix=Fix(
                    title="give the evaluation a dataset of its own, without random transforms",
                    instruction="make the dataset twice, with the training and the evaluation transform, and take the same split of indices from each",
                    expected="the same weights give the same validation metric",
                ),
            )


def _whole(dataset: Value | None) -> list[Obj]:
    """The dataset that a part was taken from; nothing where this is no part."""
    for part in provenance(dataset, 60):
        if isinstance(part, Obj) and part.name in _PARTS:
            whole = part.argument(0, "dataset")
            base = settle(whole) if whole is not None else None
            while isinstance(base, Obj) and base.name in _PARTS:
                inner = base.argument(0, "dataset")
                base = settle(inner) if inner is not None else None
            return [base] if isinstance(base, Obj) and base.kind in ("call", "instance") else []
    return []


def _random_transform(base: Obj) -> Obj | None:
    for value in (*base.args, *base.kwargs.values()):
        for part in provenance(value, 100):
            if isinstance(part, Obj) and re.match(_RANDOM, part.name):
                return part
    return None


def _changed_later(context: Context) -> bool:
    """Whether a transform is replaced on the dataset of a part afterwards."""
    return any(
        store.name in ("transform", "transforms") and not _in_init(store.context) for store in context.trace.stores
    )


def _in_init(frame: Frame) -> bool:
    return any(
        getattr(f.value, "qualname", "").endswith("__init__") for f in frame.frames() if f.kind in ("call", "root")
    )
