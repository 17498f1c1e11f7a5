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
from preflight.check.queries.known_labels import CLASSES, labelled_by
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.shapes import width
from preflight.check.queries.tensors import VIEWS
from preflight.check.rule import Rule
from preflight.source.values import plain
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
import argparse, torch, torchvision
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--data", choices=["large", "small"])
parser.add_argument("--net", choices=["large", "small"], default="small")
args = parser.parse_args()
if args.data == "large":
    data = torchvision.datasets.CIFAR100("data", transform=torchvision.transforms.ToTensor())
else:
    data = torchvision.datasets.CIFAR10("data", transform=torchvision.transforms.ToTensor())
if args.net == "small":
    net = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
else:
    net = nn.Sequential(nn.Flatten(), nn.Linear(3072, 100))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
""",
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
def check(context: Context) -> Iterator[Finding]:
    """Compare outputs with the classes of the data set of the targets."""
    for call in loss_calls(context, "cross_entropy", "nll_loss"):
        outputs = width(call.input)
        dataset = labelled_by(context, call.target, VIEWS | {"long"})
        if outputs is None or dataset is None or call.event.context.shadow:
            continue
        name = dataset.name.rpartition(".")[2]
        classes = CLASSES[name]
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
