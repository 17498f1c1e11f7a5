"""Inputs of a pretrained network are not normalised.

## What it does
Looks for a pretrained torchvision network that is trained on a torchvision dataset whose transform has no `Normalize`.

## Why
The weights were trained on inputs with mean 0 and standard deviation 1 in each channel.
Inputs between 0 and 1 have mean 0.45 and standard deviation 0.23: the first layers see values they were not trained on, and fine-tuning starts from worse features than it could.

## Fix
Add `Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])` after `ToTensor()`, or use `weights.transforms()`.

## When to ignore
When the network or the training loop normalises.

## References
- torchvision documentation, "Models and pre-trained weights"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import dataset_of, training_loaders
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Known, Obj, Seq, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="inputs-not-normalised",
    code="DAT005",
    severity="info",
    confidence="likely",
    needs=("loader", "training_loop", "model"),
    layer="D",
    tags=("data",),
)

_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    """
import torch
from torchvision import datasets, models, transforms as T
data = datasets.ImageFolder("x", T.Compose([T.Resize((224, 224)), T.ToTensor()]))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=2)
model = models.resnet18(pretrained=True)
"""
    + _LOOP,
    """
import torch
import torchvision as tv
from torch.utils.data import DataLoader as Loader
def build():
    return tv.models.resnet50(weights=tv.models.ResNet50_Weights.DEFAULT)
loader = Loader(tv.datasets.CIFAR10("x", transform=tv.transforms.ToTensor()), 8, True)
model = build()
"""
    + _LOOP,
    """
import argparse, torch, torchvision
from torchvision.transforms import v2
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=224)
args = parser.parse_args()
transform = v2.Compose([v2.RandomResizedCrop(args.size), v2.ToTensor()])
loader = torch.utils.data.DataLoader(torchvision.datasets.Food101("x", transform=transform), 8, True)
model = torchvision.models.vgg16(weights="IMAGENET1K_V1")
"""
    + _LOOP,
)
GOOD = (
    """
import torch
from torchvision import datasets, models, transforms as T
data = datasets.ImageFolder("x", T.Compose([T.Resize((224, 224)), T.ToTensor(), T.Normalize([0.5] * 3, [0.5] * 3)]))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=2)
model = models.resnet18(pretrained=True)
"""
    + _LOOP,
    """
import torch
from torchvision import datasets, models, transforms as T
data = datasets.ImageFolder("x", T.Compose([T.Resize((224, 224)), T.ToTensor()]))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=2)
model = models.resnet18(pretrained=False)
"""
    + _LOOP,
)


def check(context: Context) -> Iterator[Finding]:
    """Find pretrained networks that get pictures between 0 and 1."""
    normalises = context.trace.calls_under(
        "torchvision.transforms.functional.normalize", "torchvision.transforms.v2.functional.normalize"
    )
    if normalises:
        return
    for model in context.reading.models:
        if not model.name.startswith("torchvision.models.") or not _pretrained(model):
            continue
        for loader in training_loaders(context):
            dataset = dataset_of(loader)
            whole = next(
                (
                    p
                    for p in provenance(dataset, 40)
                    if isinstance(p, Obj) and p.name.startswith("torchvision.datasets.")
                ),
                None,
            )
            if whole is None or (isinstance(dataset, Obj) and dataset.cls is not None) or not _raw(whole):
                continue
            yield context.finding(
                RULE,
                whole,
                f"the pretrained {model.name.rpartition('.')[2]} gets pictures between 0 and 1: its weights expect mean 0 and standard deviation 1",
                evidence=[Evidence("Normalize in the transform", False), Evidence("weights", "pretrained")],
                related=[(model, "the pretrained network")],
                fix=Fix(
                    title="normalise the inputs as in pretraining",
                    instruction="add Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]) after ToTensor()",
                    expected="the pretrained features fit the inputs",
                ),
            )


def _pretrained(model: Obj) -> bool:
    for keyword in ("pretrained", "weights"):
        value = model.argument(0 if keyword == "pretrained" else -1, keyword)
        base = settle(value) if value is not None else None
        if isinstance(base, Known) and base.value in (None, False):
            return False
        if base is not None:
            return not isinstance(base, Known) or base.value is True or isinstance(base.value, str)
    return False


def _raw(dataset: Obj) -> bool:
    """Whether the transform is a list of known torchvision transforms that ends in a tensor between 0 and 1."""
    value = dataset.kwargs.get("transform")
    if value is None and dataset.name.endswith("ImageFolder") and len(dataset.args) > 1:
        value = dataset.args[1]
    parts = _parts(settle(value)) if value is not None else None
    if parts is None or not all(p.name.startswith("torchvision.transforms.") for p in parts):
        return False
    names = [p.name.rpartition(".")[2] for p in parts]
    return "ToTensor" in names and not {"Normalize", "Lambda", "LinearTransformation"} & set(names)


def _parts(transform: Value) -> list[Obj] | None:
    if not isinstance(transform, Obj):
        return None
    if not transform.name.endswith(".Compose"):
        return [transform]
    inner = settle(transform.args[0]) if transform.args else None
    if not isinstance(inner, Seq) or inner.open:
        return None
    parts = [settle(item) for item in inner.items]
    return [p for p in parts if isinstance(p, Obj)] if all(isinstance(p, Obj) for p in parts) else None
