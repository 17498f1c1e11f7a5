"""Pictures on their way from a data set to a batch: the transforms in order, and what each of them is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from preflight.source.values import Ext, Known, Obj, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

DATASETS = "torchvision.datasets."
TRANSFORMS = "torchvision.transforms."
# Where the constructor of a data set takes the transform, and how many channels its pictures have (None: they differ).
_SETS: dict[str, tuple[int, int | None]] = {
    "MNIST": (2, 1), "FashionMNIST": (2, 1), "KMNIST": (2, 1), "EMNIST": (-1, 1), "QMNIST": (-1, 1), "USPS": (2, 1),
    "SEMEION": (1, 1), "Omniglot": (2, 1), "CIFAR10": (2, 3), "CIFAR100": (2, 3), "SVHN": (2, 3), "STL10": (3, 3),
    "ImageFolder": (1, 3), "ImageNet": (-1, 3), "Imagenette": (4, 3), "Food101": (2, 3), "Flowers102": (2, 3),
    "OxfordIIITPet": (4, 3), "StanfordCars": (2, 3), "FGVCAircraft": (3, 3), "Caltech101": (2, None),
    "Caltech256": (1, None), "CelebA": (3, 3), "DTD": (3, 3), "EuroSAT": (1, 3), "GTSRB": (2, 3), "PCAM": (2, 3),
    "Places365": (4, 3), "SUN397": (1, 3), "Country211": (2, 3), "FER2013": (2, 1), "LSUN": (2, 3),
    "LFWPeople": (3, 3), "FakeData": (3, None),
}  # fmt: skip
Kind = Literal["picture", "image", "bytes", "unit", "raw", "normalised", "tensor"]
"""What a transform is given: a PIL picture; either that or a tensor; a tensor of integers 0 to 255; of floats 0 to 1; of
floats 0 to 255; of normalised floats; or a tensor of unknown type."""
AUGMENT_BYTES = frozenset(
    ("AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix", "RandomPosterize", "RandomEqualize")
)
"""Transforms of the first version that take pictures and integers alone (torchvision 0.29 raises on floats)."""
_SAME = frozenset(
    "RandomHorizontalFlip RandomVerticalFlip RandomRotation ColorJitter RandomErasing RandomAffine GaussianBlur Pad "
    "RandomPerspective RandomInvert RandomSolarize RandomAdjustSharpness RandomAutocontrast Resize Scale RandomCrop "
    "CenterCrop RandomResizedCrop RandomGrayscale ElasticTransform RandomZoomOut RandomPhotometricDistort Identity "
    "RandomShortestSize ScaleJitter RandomResize RandomChannelPermutation".split()
) | AUGMENT_BYTES  # fmt: skip
_MAYBE = frozenset(("RandomApply", "RandomChoice", "RandomOrder", "Compose"))
_RANDOM = frozenset(("ColorJitter", "AutoAugment", "TrivialAugmentWide", "AugMix", "GaussianNoise", "ElasticTransform", "RandAugment"))  # fmt: skip


class Stage(NamedTuple):
    """What one transform is given.

    Attributes:
        step: The transform; None at the end, behind the last.
        kind: What it is given; None where that is not known.
        channels: How many channels that has; None where that is not known.
    """

    step: Obj | None
    kind: Kind | None
    channels: int | None


def title(thing: Obj) -> str:
    """The last part of a thing's name."""
    return thing.name.rpartition(".")[2]


def second_version(step: Obj) -> bool:
    """Whether a transform is of ``torchvision.transforms.v2``."""
    return step.name.startswith(TRANSFORMS + "v2.")


def steps(given: Value | None) -> list[Obj] | None:
    """The transforms in order, with those of inner ``Compose``; None where one is not known to be torchvision's."""
    base = settle(given) if given is not None else None
    if not isinstance(base, Obj) or base.cls is not None or not base.name.startswith(TRANSFORMS):
        return None
    if title(base) not in ("Compose", "Sequential"):
        return [base]
    parts = listed(base)
    inner = [steps(item) for item in parts] if parts is not None else [None]
    return [step for part in inner for step in part or ()] if None not in inner else None


def listed(compose: Obj) -> list[Value] | None:
    """What a ``Compose`` lists, as it is when all is set up; None where further items may be there."""
    given = compose.argument(0, "transforms")
    base = settle(given) if given is not None else None
    return base.items if isinstance(base, Seq) and not base.open else None


def picture_set(dataset: Value | None) -> Obj | None:
    """The picture data set of torchvision that a data set is or is a part of; None for those of the project."""
    for _ in range(6):
        base = settle(dataset) if dataset is not None else None
        if not isinstance(base, Obj) or base.cls is not None:
            return None
        if base.name.startswith(DATASETS):
            return None if base.open_args or title(base) not in _SETS else base
        if base.kind != "item" and base.name not in PARTS:
            return None
        dataset = base.receiver if base.kind == "item" else base.argument(0, "dataset")
    return None


PARTS = ("torch.utils.data.Subset", "torch.utils.data.random_split")
"""What gives a part of a data set."""


def transform_of(dataset: Obj) -> Value | None:
    """The transform that a picture data set was made with; None where it has none."""
    given = dataset.argument(_SETS[title(dataset)][0], "transform")
    base = settle(given) if given is not None else None
    return None if isinstance(base, Known) and base.value is None else given


def channels_of(dataset: Obj) -> int | None:
    """How many channels the pictures of a data set have; None where they differ."""
    return _SETS[title(dataset)][1]


def transformed_once(context: Context) -> bool:
    """Whether no data set gets another transform after it was made, and no ``Compose`` further steps."""
    edited = context.trace.calls(".insert", ".append", ".extend", ".pop", ".remove")
    return not any(
        s.name in ("transform", "transforms") and not _own(s.target) for s in context.trace.stores
    ) and not any(isinstance(e.receiver, Obj) and e.receiver.kind == "attr" and _lists(e.receiver) for e in edited)


def _lists(attribute: Obj) -> bool:
    """Whether an attribute is the list of transforms of some ``Compose``."""
    return attribute.name.rpartition(".")[2] == "transforms"


def _own(target: Value) -> bool:
    base = settle(target)
    return isinstance(base, Obj) and base.cls is not None


def stages_of(dataset: Obj) -> list[Stage]:
    """What each transform of a picture data set is given; empty where the transforms are not all known."""
    known = steps(transform_of(dataset))
    return follow(known, "picture", channels_of(dataset)) if known is not None else []


def follow(transforms: list[Obj], kind: Kind | None, channels: int | None = None) -> list[Stage]:
    """What each transform is given, and last what the whole gives.

    Args:
        transforms: In order.
        kind: What the first is given; None where that is not known.
        channels: How many channels that has.
    """
    found: list[Stage] = []
    for step in transforms:
        found.append(Stage(step, kind, channels))
        name = title(step)
        if name == "Grayscale":
            number = plain(step.argument(0, "num_output_channels"), 1)
            channels = number if isinstance(number, int) else None
        elif name == "RGB":
            channels = 3
        elif name not in _SAME and name not in _TYPES:
            channels = None
        kind = _after(step, name, kind)
    return [*found, Stage(None, kind, channels)]


_TYPES = frozenset(
    ("ToTensor", "PILToTensor", "ToImage", "ToDtype", "ConvertImageDtype", "Normalize", "ToPILImage", "ToPureTensor")
)


def _after(step: Obj, name: str, kind: Kind | None) -> Kind | None:
    """What a transform gives for what it is given."""
    if name in _SAME or name in ("Grayscale", "RGB", "ToPureTensor"):
        # The first version refuses arrays, the second lets them pass.
        return "image" if kind is None and not second_version(step) else kind
    if name in ("PILToTensor", "ToImage", "ToTensor"):
        if kind is None or (kind == "image" and second_version(step)):
            return "tensor"  # an array of floats is not scaled
        unit: Kind = "unit" if name == "ToTensor" else "bytes"
        return unit if kind in ("picture", "image") else kind
    if name in ("ToDtype", "ConvertImageDtype"):
        return _cast(step, name, kind)
    if name == "Normalize":
        return "normalised"
    return "picture" if name == "ToPILImage" else None


_FLOATS = frozenset("torch." + n for n in ("float", "float32", "float16", "half", "bfloat16", "float64", "double"))


def _cast(step: Obj, name: str, kind: Kind | None) -> Kind | None:
    """What a change of type gives: scaled from integers to 0 to 1, or the same numbers as floats."""
    if kind in ("picture", "image", None):
        return kind
    given = step.argument(0, "dtype")
    dtype = settle(given) if given is not None else Ext("torch.float32")
    if not isinstance(dtype, Ext) or dtype.name not in _FLOATS:
        return "tensor"
    scales = name == "ConvertImageDtype" or plain(step.argument(1, "scale"), None if "scale" in step.kwargs else False)
    if kind != "bytes" or scales is None:
        return kind if kind != "bytes" else "tensor"
    return "unit" if scales else "raw"


def random_step(given: Value | None, depth: int = 0) -> Obj | None:
    """The first transform that changes a picture at random; a transform with ``p=0`` changes none."""
    base = settle(given) if given is not None else None
    if not isinstance(base, Obj) or base.cls is not None or not base.name.startswith(TRANSFORMS) or depth > 5:
        return None
    name = title(base)
    if name in _MAYBE and name != "Compose":
        return base if plain(base.kwargs.get("p"), 0.5) != 0 else None
    if name in ("Compose", "Sequential"):
        found = (random_step(item, depth + 1) for item in listed(base) or ())
        return next((step for step in found if step is not None), None)
    if not name.startswith("Random") and name not in _RANDOM:
        return None
    return None if plain(base.kwargs.get("p"), 0.5) == 0 or _none_at_all(base, name) else base


def _none_at_all(step: Obj, name: str) -> bool:
    """Whether a transform that draws at random is set to change nothing."""
    chance = plain(step.args[0], None) if step.args and name.endswith(("Flip", "Grayscale")) else None
    return chance == 0 and not isinstance(chance, bool)


def _composed(context: Context) -> Iterator[Obj]:
    """All ``Compose`` that the script makes and that are not part of another, each once."""
    made = [e.result for e in context.trace.calls(TRANSFORMS + "Compose", TRANSFORMS + "v2.Compose")]
    whole = [o for o in made if isinstance(o, Obj) and not (o.context is not None and o.context.shadow)]
    inner = {id(settle(item)) for o in whole for item in listed(o) or ()}
    yield from (o for o in {id(o): o for o in whole}.values() if id(o) not in inner)


def followed(context: Context) -> Iterator[tuple[Obj | None, list[Stage]]]:
    """The transforms of picture data sets, and all other ``Compose``, each once."""
    made = [e.result for e in context.trace.calls_under(DATASETS)]
    seen: set[int] = set()
    for value in made:
        dataset = picture_set(value)
        if dataset is None or (dataset.context is not None and dataset.context.shadow):
            continue
        stages = stages_of(dataset)
        transform = transform_of(dataset)
        if stages and transform is not None and id(settle(transform)) not in seen:
            seen.add(id(settle(transform)))
            yield dataset, stages
    for compose in _composed(context):
        known = steps(compose)
        if known and id(compose) not in seen:
            yield None, follow(known, None)


def numbers(given: Value | None) -> list[float] | None:
    """A list of numbers such as the means of the channels; None where one is not known."""
    found = plain(given)
    found = [found] if isinstance(found, (int, float)) else found
    if not isinstance(found, (list, tuple)) or not all(isinstance(n, (int, float)) for n in found):
        return None
    return [float(n) for n in found]


class Given(NamedTuple):
    """A data set of pictures with the transform that it was made with.

    Attributes:
        dataset: A data set of torchvision, or one of the project.
        transform: The transform as it was given.
        stages: What each transform is given; empty where they are not all known.
    """

    dataset: Obj
    transform: Value
    stages: list[Stage]


def given_transform(dataset: Value | None) -> Given | None:
    """The transform that a data set was given, whole or behind its parts; None where there is none or several."""
    whole = picture_set(dataset)
    if whole is not None:
        transform = transform_of(whole)
        return Given(whole, transform, stages_of(whole)) if transform is not None else None
    base = whole_of(dataset)
    if base is None or base.cls is None or base.kind != "instance":
        return None
    found = [v for v in (*base.args, *base.kwargs.values()) if _is_transform(v)]
    if len(found) != 1:
        return None
    known = steps(found[0])
    return Given(base, found[0], follow(known, None) if known else [])


def _is_transform(value: Value) -> bool:
    base = settle(value)
    return isinstance(base, Obj) and base.cls is None and base.name.startswith(TRANSFORMS)


def whole_of(dataset: Value | None) -> Obj | None:
    """The data set that a part was taken from, or the data set itself."""
    for _ in range(6):
        base = settle(dataset) if dataset is not None else None
        if not isinstance(base, Obj) or (base.kind != "item" and base.name not in PARTS):
            return base if isinstance(base, Obj) else None
        dataset = base.receiver if base.kind == "item" else base.argument(0, "dataset")
    return None
