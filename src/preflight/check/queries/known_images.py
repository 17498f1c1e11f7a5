"""The size of the images of a batch, where the data set and its transforms leave no doubt."""

from __future__ import annotations

from preflight.check.queries.pictures import steps
from preflight.check.queries.tensors import operation, origin
from preflight.source.trace import provenance
from preflight.source.values import Obj, Value, plain

# Channels and side of data sets whose images all have one size; None where they differ.
_SETS: dict[str, tuple[int, int | None]] = {
    "CIFAR10": (3, 32), "CIFAR100": (3, 32), "SVHN": (3, 32), "STL10": (3, 96), "MNIST": (1, 28), "FashionMNIST": (1, 28),
    "KMNIST": (1, 28), "QMNIST": (1, 28), "EMNIST": (1, 28), "USPS": (1, 16), "ImageFolder": (3, None),
    "ImageNet": (3, None), "Food101": (3, None), "Flowers102": (3, None),
}  # fmt: skip
_CROPS = frozenset(("RandomResizedCrop", "RandomCrop", "CenterCrop"))
_SAME = frozenset(
    "Compose ToTensor PILToTensor ToImage ToDtype ConvertImageDtype Normalize RandomHorizontalFlip RandomVerticalFlip RandomRotation "
    "ColorJitter RandomErasing RandAugment AutoAugment TrivialAugmentWide AugMix RandomAffine GaussianBlur RandomPerspective "
    "RandomGrayscale RandomInvert RandomSolarize RandomAdjustSharpness RandomAutocontrast RandomEqualize".split()
)
"""Transforms that leave channels and size as they are."""
_MOVES = frozenset(("to", "cuda", "float", "half", "bfloat16", "contiguous"))


def images_of(given: Value) -> tuple[int, int, int] | None:
    """Return channels, height and width of what a network is given; None where anything else may happen to it.

    Args:
        given: The argument of the network's call: an item of a loader's batch, as it came.
    """
    source = origin(given, _MOVES)
    loader = origin(source, frozenset(), items=True)
    if loader is None or operation(source) != "[]" or loader.name != "torch.utils.data.DataLoader":
        return None
    if loader.argument(6, "collate_fn") is not None or loader.open_args:
        return None
    parts = [part for part in provenance(loader.argument(0, "dataset"), 200) if isinstance(part, Obj)]
    if any(part.cls is not None for part in parts):
        return None  # a data set or a transform of the script's own
    found = {_size(part) for part in parts if part.name.startswith("torchvision.datasets.")}
    return found.pop() if len(found) == 1 else None


def _size(dataset: Obj) -> tuple[int, int, int] | None:
    """The size of the images that a data set gives, behind its transform."""
    kind = dataset.name.rpartition(".")[2]
    if kind not in _SETS or dataset.open_args:
        return None
    channels, side = _SETS[kind]
    given = dataset.argument(1 if kind == "ImageFolder" else 2, "transform")
    listed = steps(given)
    if listed is None:
        return None
    for step in listed:
        name = step.name.rpartition(".")[2]
        if name == "Grayscale":
            channels = plain(step.argument(0, "num_output_channels"), 1)
        elif name in _CROPS or name == "Resize":
            side = _side(step, side if name == "Resize" else None)
            if side is None:
                return None
        elif name not in _SAME:
            return None
    return (channels, side, side) if side is not None and isinstance(channels, int) else None


def _side(step: Obj, square: int | None) -> int | None:
    """The side of the squares that a step gives; a resize by one number gives squares of squares alone."""
    size = plain(step.argument(0, "size"))
    if isinstance(size, int) and not isinstance(size, bool):
        return size if square is not None or not step.name.endswith(".Resize") else None
    pair = isinstance(size, (list, tuple)) and len(size) == 2 and size[0] == size[1]
    return size[0] if pair and isinstance(size[0], int) else None
