"""The samples of a batch cannot be stacked.

## What it does
Looks for a `DataLoader` with PyTorch's own collate function over a torchvision dataset whose samples are pictures that no transform makes tensors, differ in size, or carry lists of boxes.

## Why
The default collate function stacks tensors of equal shape and refuses anything else.
A PIL image raises a TypeError on the first batch.
`Resize(256)` scales the shorter side only, so pictures of different proportions keep different sizes, and the first batch that mixes them raises a RuntimeError, often after many steps.

## Fix
Give the dataset a transform that ends in one size and a tensor: `Resize((256, 256))` or a crop, then `ToTensor()`; or give the loader a `collate_fn`.

## When to ignore
When all files are known to have one size.

## References
- PyTorch documentation, `torch.utils.data.default_collate`
- torchvision documentation, `torchvision.transforms.Resize`
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import dataset_of, feeding, setting, source_loaders, torch_loaders
from preflight.check.queries.pictures import stages_of, title, transform_of
from preflight.check.rule import Rule
from preflight.source.values import Known, Obj, Seq, Value, settle
from preflight.vocabulary.finding import Confidence, Finding, Severity

RULE = Rule(
    name="samples-cannot-be-stacked",
    code="DAT008",
    severity="error",
    confidence="likely",
    needs=("loader",),
    layer="D",
    tags=("data",),
)

BAD = (
    """
from torch.utils.data import DataLoader
from torchvision import datasets, transforms as T
data = datasets.CIFAR10("data", train=True, transform=T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip()]))
for x, y in DataLoader(data, batch_size=64, shuffle=True):
    print(x)
""",
    """
from torch.utils.data import DataLoader
from torchvision.datasets import MNIST
loader = DataLoader(MNIST("data", train=True, download=True), batch_size=64, shuffle=True)
for x, y in loader:
    print(x)
""",
    """
import torch, torchvision
import torchvision.transforms as T
def build(root, size):
    return torchvision.datasets.Food101(root, transform=T.Compose([T.Resize(size), T.ToTensor()]))
for x, y in torch.utils.data.DataLoader(build("x", 256), 32, True):
    print(x)
""",
    """
import argparse
from torch.utils import data
from torchvision import datasets, transforms
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
args = parser.parse_args()
coco = datasets.CocoDetection("images", "notes.json", transform=transforms.ToTensor())
loader = data.DataLoader(coco, batch_size=args.batch, shuffle=True)
for images, targets in loader:
    print(len(targets))
""",
)
GOOD = (
    """
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
prepare = transforms.Compose([])
if augment:
    prepare.transforms.append(transforms.RandomCrop(32, padding=4))
prepare.transforms.append(transforms.ToTensor())
for x, y in DataLoader(datasets.CIFAR10("x", transform=prepare), batch_size=8):
    print(x)
""",
    """
from torch.utils.data import DataLoader
from torchvision import datasets, transforms as T
a = DataLoader(datasets.Food101("x", transform=T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor()])), batch_size=8)
b = DataLoader(datasets.ImageFolder("y", transform=T.Compose([T.Resize((64, 64)), T.ToTensor()])), batch_size=8)
c = DataLoader(datasets.CocoDetection("z", "n.json", transform=T.ToTensor()), batch_size=4, collate_fn=lambda b: tuple(zip(*b)))
d = DataLoader(datasets.Food101("x", transform=T.Compose([T.Resize(256), T.ToTensor()])), batch_size=1)
for loader in (a, b, c, d):
    for x, y in loader:
        print(x)
""",
    """
from torch.utils.data import DataLoader, Dataset
from torchvision.datasets import CIFAR10
class Wrapped(Dataset):
    def __init__(self, inner, transform):
        self.inner, self.transform = inner, transform
    def __getitem__(self, i):
        x, y = self.inner[i]
        return self.transform(x), y
    def __len__(self):
        return len(self.inner)
plain = CIFAR10("x")
plain.transform = make_transform()
for x, y in DataLoader(plain, batch_size=8):
    print(x)
for x, y in DataLoader(Wrapped(CIFAR10("x"), make_transform()), batch_size=8):
    print(x)
""",
)

_PICTURES = (
    r"^torchvision\.datasets\.(MNIST|FashionMNIST|KMNIST|QMNIST|EMNIST|CIFAR10|CIFAR100|SVHN|STL10|USPS|SEMEION|ImageFolder|ImageNet|Food101"
    r"|Flowers102|OxfordIIITPet|StanfordCars|FGVCAircraft|Caltech101|Caltech256|CelebA|DTD|EuroSAT|GTSRB|LSUN|PCAM|Places365|SUN397|Country211)$"
)
_VARIED = (
    r"^torchvision\.datasets\.(ImageFolder|ImageNet|Food101|Flowers102|OxfordIIITPet|StanfordCars|FGVCAircraft|Caltech101|Caltech256|DTD|GTSRB"
    r"|SUN397|Country211)$"
)
_BOXES = (
    "torchvision.datasets.CocoDetection",
    "torchvision.datasets.VOCDetection",
    "torchvision.datasets.Kitti",
    "torchvision.datasets.WIDERFace",
)
_NOT_SIZING = (
    r"^torchvision\.transforms\.(v2\.)?(ToTensor|PILToTensor|ToImage|ToDtype|ConvertImageDtype|Normalize|RandomHorizontalFlip|RandomVerticalFlip"
    r"|ColorJitter|Grayscale|RandomGrayscale|RandomErasing|GaussianBlur|RandAugment|AutoAugment|TrivialAugmentWide)$"
)
_RESIZE = r"^torchvision\.transforms\.(v2\.)?(Resize|Scale)$"


def check(context: Context) -> Iterator[Finding]:
    """Find loaders whose default collate function meets what it cannot stack."""
    iterated = {id(o) for o in _iterated(context)}
    for loader in torch_loaders(context):
        if id(loader) not in iterated or setting(loader, "collate_fn") is not None or loader.open_args:
            continue
        dataset = _plain_dataset(dataset_of(loader))
        if dataset is None or any(
            s.name in ("transform", "transforms", "collate_fn", "target_transform")
            for s in context.trace.stores
            if not _own(s.target)
        ):
            continue
        problem = _problem(dataset, setting(loader, "batch_size"))
        if problem is None:
            continue
        told, severity, confidence = problem
        yield context.finding(
            RULE,
            loader,
            told,
            evidence=[
                Evidence("dataset", dataset.name),
                Evidence("collate_fn", None, None, "derived", "PyTorch's default"),
            ],
            related=[(dataset, "the dataset")],
            fix=Fix(
                title="bring all samples to tensors of one size",
                instruction="end the transform in one size and a tensor, such as Resize((256, 256)) and ToTensor(), or pass a collate_fn",
                expected="the batches can be stacked",
            ),
            severity=severity,
            confidence=confidence,
        )


def _iterated(context: Context) -> list[Obj]:
    return [o for frame in feeding(context).frames for o in source_loaders(context, frame.value)]


def _own(target: Value) -> bool:
    """Whether an attribute is set on a thing of the project: on ``self`` of a wrapper, say."""
    base = settle(target)
    return isinstance(base, Obj) and base.cls is not None


def _plain_dataset(dataset: Value | None) -> Obj | None:
    """A torchvision dataset, also behind a split; nothing for datasets of the project."""
    for _ in range(4):
        if not isinstance(dataset, Obj) or dataset.cls is not None:
            return None
        if dataset.name.startswith("torchvision.datasets."):
            return None if dataset.open_args else dataset
        inner = dataset.receiver if dataset.kind == "item" else dataset.argument(0, "dataset")
        dataset = settle(inner) if inner is not None else None
    return None


def _problem(dataset: Obj, batch: object) -> tuple[str, Severity, Confidence] | None:
    name = dataset.name.rpartition(".")[2]
    single = batch == 1 or not isinstance(batch, int)
    if dataset.name in _BOXES:
        if single or "transforms" in dataset.kwargs or "target_transform" in dataset.kwargs:
            return None
        told = f"{name} returns a list of objects of another length for each picture, which the default collate function cannot stack: the first batch fails"
        return told, "error", "likely"
    if not re.match(_PICTURES, dataset.name) or "transforms" in dataset.kwargs:
        return None
    transform = transform_of(dataset)
    if transform is None:
        return (
            f"{name} without a transform returns PIL images, which the default collate function refuses: the first batch fails with a TypeError",
            "error",
            "likely",
        )
    if stages := stages_of(dataset):
        *before, last = stages
        if last.kind == "picture":
            listed = ", ".join(title(stage.step) for stage in before if stage.step is not None)
            told = f"no transform of {name} makes a tensor ({listed}): the default collate function refuses PIL images, and the first batch fails with a TypeError"
            return told, "error", "likely"
    if single or not re.match(_VARIED, dataset.name):
        return None
    return _sizes(name, settle(transform))


def _sizes(name: str, transform: Value) -> tuple[str, Severity, Confidence] | None:
    """What a list of transforms says about the size of pictures."""
    parts: list[Value] = [transform]
    if isinstance(transform, Obj) and transform.name.endswith(".Compose") and transform.args:
        inner = settle(transform.args[0])
        if not isinstance(inner, Seq) or inner.open:
            return None
        parts = [settle(item) for item in inner.items]
    resize: Obj | None = None
    for part in parts:
        if not isinstance(part, Obj):
            return None
        if re.match(_RESIZE, part.name):
            resize = part
        elif not re.match(_NOT_SIZING, part.name):
            return None
    folder = name in ("ImageFolder", "ImageNet")
    if resize is None:
        return (
            None
            if folder
            else (
                f"the pictures of {name} differ in size and no transform brings them to one: a batch that mixes sizes fails",
                "error",
                "likely",
            )
        )
    size = resize.argument(0, "size")
    value = settle(size) if size is not None else None
    if not (isinstance(value, Known) and isinstance(value.value, int)):
        return None
    told = f"Resize({value.value}) scales the shorter side only: pictures of other proportions keep other sizes, and the first batch that mixes them fails"
    return told, ("warning" if folder else "error"), "likely"
