"""Held-out data pass through random transforms.

## What it does
Looks for a loader that is only evaluated on and whose data set has a random transform, such as a random crop or flip.

## Why
Augmentation makes training harder on purpose.
On held-out data it makes the metric lower than what the network is worth, and different from epoch to epoch for the same weights, so that the best checkpoint is chosen by luck.

## Fix
Give the evaluation a transform of its own: one size by `Resize` and `CenterCrop`, then the same `ToTensor` and `Normalize` as in training.

## When to ignore
When several random views are averaged on purpose (test-time augmentation), or when the task itself is about random views.

## References
- torchvision, references/classification: the presets for training and for evaluation
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import dataset_of, evaluation_loaders, training_loaders
from preflight.check.queries.pictures import Given, given_transform, random_step, title, transformed_once, whole_of
from preflight.check.rule import Rule
from preflight.source.values import settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="evaluation-transformed-at-random",
    code="DAT015",
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
BAD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms as T
augment = T.Compose([T.RandomCrop(32, padding=4), T.ToTensor()])
train = DataLoader(datasets.CIFAR10("x", train=True, transform=augment), batch_size=8, shuffle=True)
val = DataLoader(datasets.CIFAR10("x", train=False, transform=augment), batch_size=8)
"""
    + _LOOPS,
    """
import torch, torch.utils.data as tud
from torch import nn
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2
def loader(folder, shuffle):
    steps = [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    return tud.DataLoader(ImageFolder(folder, v2.Compose(steps)), 8, shuffle)
train, val = loader("train", True), loader("val", False)
"""
    + _LOOPS,
    """
import argparse, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
class Pictures(Dataset):
    def __init__(self, files, transform):
        self.files, self.transform = files, transform
    def __getitem__(self, i):
        return self.transform(self.files[i])
    def __len__(self):
        return len(self.files)
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=224)
args = parser.parse_args()
plain = transforms.Compose([transforms.ToTensor()])
augment = transforms.Compose([transforms.RandomApply([transforms.ColorJitter(0.4)]), transforms.Resize(args.size), transforms.ToTensor()])
train = DataLoader(Pictures(listed, plain), 4, shuffle=True)
val = DataLoader(Pictures(others, augment), 4)
"""
    + _LOOPS,
)
GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms as T
augment = T.Compose([T.RandomCrop(32, padding=4), T.ToTensor()])
plain = T.Compose([T.Resize(32), T.RandomHorizontalFlip(p=0), T.ToTensor()])
train = DataLoader(datasets.CIFAR10("x", train=True, transform=augment), batch_size=8, shuffle=True)
val = DataLoader(datasets.CIFAR10("x", train=False, transform=plain), batch_size=8)
"""
    + _LOOPS,
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms as T
def transform(train):
    steps = [T.RandomHorizontalFlip()] if train else []
    return T.Compose(steps + [T.ToTensor()])
train = DataLoader(datasets.CIFAR10("x", train=True, transform=transform(True)), batch_size=8, shuffle=True)
val = DataLoader(datasets.CIFAR10("x", train=False, transform=transform(False)), batch_size=8)
"""
    + _LOOPS,
)


def check(context: Context) -> Iterator[Finding]:
    """Find loaders that are only evaluated on and change their pictures at random."""
    if not transformed_once(context):
        return
    trained = {id(whole_of(dataset_of(loader))) for loader in training_loaders(context)}
    for loader in evaluation_loaders(context):
        given = given_transform(dataset_of(loader))
        random = random_step(given.transform) if given is not None else None
        # Parts of the data set that is trained on are told by one-dataset-for-training-and-evaluation.
        if given is None or random is None or id(given.dataset) in trained:
            continue
        shared = any(settle(given.transform) is settle(g.transform) for g in _training(context))
        yield context.finding(
            RULE,
            given.dataset,
            f"held-out pictures pass through the random transform {title(random)}"
            f"{', because the evaluation has the transform of the training' if shared else ''}: the metric is lower than what the "
            "network is worth, and changes for the same weights",
            evidence=[
                Evidence("random transform", title(random)),
                *([Evidence("transform of the evaluation", "that of the training")] if shared else ()),
            ],
            related=[(random, "the random transform"), (loader, "the loader that is evaluated on")],
            fix=Fix(
                title="give the evaluation a transform without random parts",
                instruction="resize or crop to one size at the centre, then ToTensor and the Normalize of the training",
                expected="the same weights give the same metric",
            ),
        )


def _training(context: Context) -> list[Given]:
    found = [given_transform(dataset_of(loader)) for loader in training_loaders(context)]
    return [given for given in found if given is not None]
