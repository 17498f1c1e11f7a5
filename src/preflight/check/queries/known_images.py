"""The size of the images of a batch, where the data set and its transforms leave no doubt."""

from __future__ import annotations

from preflight.check.queries.batches import library_parts, loader_of
from preflight.check.queries.pictures import DATASETS, channels_of, picture_set, steps, title, transform_of
from preflight.check.queries.tensors import origin
from preflight.source.values import Obj, Value, plain

# The side of the images of data sets whose images all have one size.
_SIDES = {
    "CIFAR10": 32, "CIFAR100": 32, "SVHN": 32, "STL10": 96, "MNIST": 28, "FashionMNIST": 28, "KMNIST": 28, "QMNIST": 28,
    "EMNIST": 28, "USPS": 16,
}  # fmt: skip
_OF_ANY_SIZE = frozenset(("ImageFolder", "ImageNet", "Food101", "Flowers102"))
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
    parts = library_parts(loader_of(origin(given, _MOVES)))
    if parts is None:
        return None
    found = {_size(part) for part in parts if part.name.startswith(DATASETS)}
    return found.pop() if len(found) == 1 else None


def _size(dataset: Obj) -> tuple[int, int, int] | None:
    """The size of the images that a data set gives, behind its transform."""
    kind = title(dataset)
    if picture_set(dataset) is None or kind not in _SIDES.keys() | _OF_ANY_SIZE:
        return None
    channels, side = channels_of(dataset), _SIDES.get(kind)
    listed = steps(transform_of(dataset))
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
