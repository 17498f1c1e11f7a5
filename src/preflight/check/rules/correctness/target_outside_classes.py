"""The data set has more classes than the network has outputs.

## What it does
Compares the number of outputs of the last layer with the number of classes of the torchvision data set that the targets come from.

## Why
A target outside the outputs stops cross entropy: on a GPU as a device-side assertion, reported at some later line.

## Fix
Give the last layer as many outputs as the data set has classes.

## When to ignore
When the targets are mapped to fewer classes by code that cannot be seen.

## References
- torchvision documentation of the data sets
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import LossCall, loss_calls
from preflight.check.queries.shapes import width
from preflight.check.queries.tensors import VIEWS, origin
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Obj, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="target-outside-classes",
    code="SHP007",
    severity="error",
    confidence="likely",
    layer="C",
    tags=("shapes", "loss"),
)

BAD = (
    """
import torch.nn as nn
from torch.utils.data import DataLoader
from torchvision import datasets
loader = DataLoader(datasets.CIFAR100("data", train=True), batch_size=8)
model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
for x, y in loader:
    nn.CrossEntropyLoss()(model(x), y).backward()
""",
    """
import torch, torchvision
class Net(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.fc = torch.nn.Linear(784, classes)
    def forward(self, x):
        return torch.log_softmax(self.fc(x.flatten(1)), 1)
def main(classes=9):
    data = torchvision.datasets.MNIST("data")
    net = Net(classes)
    for x, y in torch.utils.data.DataLoader(data, batch_size=8):
        torch.nn.functional.nll_loss(net(x.cuda()), y.cuda()).backward()
main()
""",
    """
import argparse
from torch import nn
from torch.utils.data import DataLoader as Loader
from torchvision.datasets import Food101
from torchvision.models import resnet18
p = argparse.ArgumentParser()
p.add_argument("--classes", type=int, default=100)
args = p.parse_args()
model = resnet18(num_classes=args.classes)
for i, (x, y) in enumerate(Loader(Food101("data"))):
    nn.functional.cross_entropy(model(x), y.to("cuda")).backward()
""",
    """
import torch.nn as nn
from torch.utils.data import DataLoader, Subset
from torchvision import datasets
data = Subset(datasets.CIFAR100("data"), range(1000))
model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
for x, y in DataLoader(data, batch_size=64):
    nn.functional.cross_entropy(model(x), y)
""",
)

GOOD = (
    """
import torch.nn as nn
from torch.utils.data import DataLoader
from torchvision import datasets
loader = DataLoader(datasets.CIFAR100("data", target_transform=coarse), batch_size=8)
model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 20))
for x, y in loader:
    nn.CrossEntropyLoss()(model(x), y).backward()
""",
    """
import torch.nn as nn
from torch.utils.data import DataLoader
from torchvision import datasets
loader = DataLoader(datasets.MNIST("data"), batch_size=8)
even, ten = nn.Linear(784, 2), nn.Linear(784, 10)
for x, y in loader:
    x = x.flatten(1)
    loss = nn.functional.cross_entropy(even(x), y % 2)
    (loss + nn.functional.cross_entropy(ten(x), y)).backward()
""",
    """
import torch.nn as nn
from torch.utils.data import DataLoader, Subset
from torchvision import datasets
data = datasets.CIFAR100("data")
first_ten = [i for i, target in enumerate(data.targets) if target < 10]
model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
for x, y in DataLoader(Subset(data, first_ten), batch_size=64):
    nn.functional.cross_entropy(model(x), y)
""",
    """
import torch.nn as nn
from torch.utils.data import DataLoader
from torchvision import datasets
data = datasets.MNIST("data")
data.targets = data.targets % 2
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 2))
for x, y in DataLoader(data, batch_size=64):
    nn.functional.cross_entropy(model(x), y)
""",
)

# Number of classes of the labels as the data set gives them.
_CLASSES = {
    "MNIST": 10, "FashionMNIST": 10, "KMNIST": 10, "CIFAR10": 10, "CIFAR100": 100, "SVHN": 10, "STL10": 10, "Food101": 101,
    "ImageNet": 1000, "Caltech256": 257, "Flowers102": 102, "DTD": 47, "GTSRB": 43, "EuroSAT": 10, "StanfordCars": 196,
    "FGVCAircraft": 100, "Country211": 211, "USPS": 10, "OxfordIIITPet": 37, "SUN397": 397, "Imagenette": 10,
}  # fmt: skip


_LABELS = frozenset(("targets", "labels", "train_labels", "_labels", "_samples", "samples", "y"))
# What makes indices without a look at the samples.
_POSITIONS = frozenset(("range", "arange", "randperm", "permutation"))


def check(context: Context) -> Iterator[Finding]:
    """Compare outputs with the classes of the data set of the targets."""
    for call in loss_calls(context, "cross_entropy", "nll_loss"):
        outputs = width(call.input)
        dataset = _dataset_of(context, call)
        if outputs is None or dataset is None or call.event.context.shadow:
            continue
        name = dataset.name.rpartition(".")[2]
        classes = _CLASSES[name]
        ignored = plain(call.option("ignore_index"), -100)
        if outputs >= classes or outputs < 2 or ignored in range(classes):
            continue
        yield context.finding(
            RULE,
            call.event,
            f"{name} has {classes} classes, but the network has {outputs} outputs: "
            f"a target of {outputs} or more stops the run",
            evidence=[
                Evidence("classes of the data set", classes, source="published"),
                Evidence("outputs of the network", outputs),
            ],
            related=[(dataset, "the data set is made here")],
            fix=Fix(
                title="one output for each class",
                instruction=f"give the last layer {classes} outputs",
                expected="every target is a valid class",
            ),
        )


def _dataset_of(context: Context, call: LossCall) -> Obj | None:
    """The data set whose own labels are the target: nothing computes with them on the way."""
    source = origin(call.target, VIEWS | {"long"}, items=True)
    if not isinstance(source, Obj) or context.roles.of(source) != "loader":
        return None
    for part in provenance(source, 80):
        if not isinstance(part, Obj) or not part.name.startswith("torchvision.datasets."):
            continue
        if part.name.rpartition(".")[2] not in _CLASSES or "target_transform" in part.kwargs or part.open_args:
            return None
        return None if _relabelled(context, part) or _selected(source) else part
    return None


def _relabelled(context: Context, dataset: Obj) -> bool:
    """Whether the script writes labels into the data set: fewer classes, or other numbers for them."""
    return any(s.name in _LABELS and settle(s.target) is dataset for s in context.trace.stores)


def _selected(source: Obj) -> bool:
    """Whether samples are chosen by something else than chance and position: by their class, perhaps."""
    for part in provenance(source, 80):
        if isinstance(part, Obj) and part.name == "torch.utils.data.Subset":
            indices = list(provenance(part.argument(1, "indices"), 60))
            if any(isinstance(i, Obj) and i.kind == "attr" and i.name in _LABELS for i in indices):
                return True
            if not any(isinstance(i, Obj) and i.name.rpartition(".")[2] in _POSITIONS for i in indices):
                return True
    return False
