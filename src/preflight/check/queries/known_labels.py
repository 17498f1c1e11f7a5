"""The labels of well-known data sets: numbers of classes, one for each sample, where nothing changes them on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.check.queries.tensors import origin
from preflight.source.trace import provenance
from preflight.source.values import Obj, Value, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

CLASSES = {
    "MNIST": 10, "FashionMNIST": 10, "KMNIST": 10, "CIFAR10": 10, "CIFAR100": 100, "SVHN": 10, "STL10": 10, "Food101": 101,
    "ImageNet": 1000, "Caltech256": 257, "Flowers102": 102, "DTD": 47, "GTSRB": 43, "EuroSAT": 10, "StanfordCars": 196,
    "FGVCAircraft": 100, "Country211": 211, "USPS": 10, "OxfordIIITPet": 37, "SUN397": 397, "Imagenette": 10,
}  # fmt: skip


_LABELS = frozenset(("targets", "labels", "train_labels", "_labels", "_samples", "samples", "y"))
# What makes indices without a look at the samples.
_POSITIONS = frozenset(("range", "arange", "randperm", "permutation"))


def labelled_by(context: Context, target: Value | None, through: frozenset[str]) -> Obj | None:
    """The data set whose own labels a target is: nothing computes with them on the way.

    Args:
        context: The check.
        target: The target of a loss.
        through: Operations that leave labels what they are.
    """
    source = origin(target, through, items=True)
    if not isinstance(source, Obj) or context.roles.of(source) != "loader":
        return None
    sets = [p for p in provenance(source, 80) if isinstance(p, Obj) and p.name.startswith("torchvision.datasets.")]
    if not sets or any("target_transform" in one.kwargs or one.open_args for one in sets):
        return None
    classes = {CLASSES.get(one.name.rpartition(".")[2]) for one in sets}
    if len(classes) != 1 or None in classes:
        return None  # an option chooses among several: which one the network was made for is not known
    return None if any(_relabelled(context, one) for one in sets) or _selected(source) else sets[0]


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
