"""Numbers of classes are the target of a loss that compares element by element.

## What it does
Looks for `MSELoss`, `L1Loss`, `BCEWithLogitsLoss` and the like between the outputs of a network, one for each class, and the labels of a data set, one number for each sample.

## Why
The shapes differ: (N, classes) against (N,).
The binary losses raise `ValueError`; the others try to broadcast, which fails, or compares each output with another sample's label where the batch is as large as the number of classes.

## Fix
Classes are what `CrossEntropyLoss` is for: it takes the outputs and the numbers of the classes.
For another loss turn the labels into one-hot vectors: `F.one_hot(y, classes).float()`.

## When to ignore
Never, where the label is the number of a class.

## References
- PyTorch, `torch.nn.CrossEntropyLoss`, `torch.nn.BCEWithLogitsLoss`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.known_labels import labelled_by
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.shapes import width
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="class-numbers-in-elementwise-loss",
    code="LOS013",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("loss",),
)

BAD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
criterion = nn.MSELoss()
for x, y in DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, shuffle=True):
    criterion(model(x), y.float()).backward()
""",
    """
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3072, 100)
    def forward(self, x):
        return self.fc(x.flatten(1))
net = Net().cuda()
data = torchvision.datasets.CIFAR100("data", transform=torchvision.transforms.ToTensor())
for images, labels in DataLoader(data, 128):
    loss = F.binary_cross_entropy_with_logits(net(images.cuda()), labels.to("cuda"))
    loss.backward()
""",
    """
import torch
from torch.utils.data import DataLoader, random_split
from torchvision.datasets import FashionMNIST
from torchvision.transforms import ToTensor
train, held = random_split(FashionMNIST("data", transform=ToTensor()), [50_000, 10_000])
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10), torch.nn.Sigmoid())
distance = torch.nn.SmoothL1Loss()
for x, y in DataLoader(train, batch_size=32):
    distance(net(x), y).backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
criterion = nn.MSELoss()
for x, y in DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, shuffle=True):
    criterion(model(x), nn.functional.one_hot(y, 10).float()).backward()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 1))
criterion = nn.BCEWithLogitsLoss()
for x, y in DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, shuffle=True):
    criterion(model(x).squeeze(1), (y > 4).float()).backward()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
coder = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 784))
for x, _ in DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, shuffle=True):
    nn.functional.mse_loss(coder(x), x.flatten(1)).backward()
""",
)

_KINDS = (
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
)
_SAME = frozenset({"to", "cuda", "long", "float", "double", "half", "type"})


def check(context: Context) -> Iterator[Finding]:
    """Find outputs for several classes beside one number for each sample."""
    for call in loss_calls(context, *_KINDS):
        outputs, dataset = width(call.input), labelled_by(context, call.target, _SAME)
        if outputs is None or outputs < 2 or dataset is None or call.event.context.shadow:
            continue
        name = dataset.name.rpartition(".")[2]
        raises = "raises an error" if call.kind.startswith("binary") else "does not compare an output with its label"
        yield context.finding(
            RULE,
            call.event,
            f"{call.name} {raises}: the target is the number of a class ({name}), the input has {outputs} values a sample",
            evidence=[
                Evidence("shape of the input", f"(N, {outputs})"),
                Evidence("shape of the target", "(N,)"),
            ],
            related=[(dataset, "the data set is made here")],
            fix=Fix(
                title="use the cross entropy",
                safe=False,
                instruction="use nn.CrossEntropyLoss on the raw outputs, or one-hot targets",
                expected="each sample's outputs are compared with its class",
            ),
        )
