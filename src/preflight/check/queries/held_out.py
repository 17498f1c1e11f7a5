"""Held-out data: whether what is evaluated is what was trained on, and what is made and never read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.check.queries.loaders import dataset_of, given, torch_loaders
from preflight.check.queries.metrics import is_loss
from preflight.check.queries.tensors import graph
from preflight.source.trace import Context as Frame
from preflight.source.trace import parents_of, provenance
from preflight.source.values import Known, Obj, Value, options_of, plain, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

_SELECTS = ("sampler", "batch_sampler")
_DRAWN = ("torchvision.datasets.FakeData",)


def same_data(context: Context, first: Obj, second: Obj) -> bool:
    """Whether two loaders read the same samples for sure: all of one data set, or of two that were made alike."""
    if any(_chosen(loader, name) for loader in (first, second) for name in _SELECTS):
        return False
    one, other = dataset_of(first), dataset_of(second)
    if not isinstance(one, Obj) or not isinstance(other, Obj):
        return False
    if one is other:
        return not _changes(context, one) and (not _drawn(one) or bool(unread_sets(context, one)))
    return alike(one, other) and not _changes(context, one) and not _changes(context, other)


def _drawn(dataset: Obj) -> bool:
    """Whether a data set was drawn by chance for a trial: there is nothing to learn that held-out data could show."""
    values = [dataset, *dataset.attrs.values()]
    made = (part for value in values for part in provenance(value, 200) if isinstance(part, Obj))
    return any(
        p.name.startswith(("torch.rand", "numpy.random.", "random.", "torch.normal", "sklearn.datasets.make_"))
        for p in made
    )


def _chosen(loader: Obj, name: str) -> bool:
    """Whether a loader is given something that may choose some of the samples."""
    value = given(loader, name)
    base = settle(value) if value is not None else None
    return loader.open_args or (base is not None and not (isinstance(base, Known) and base.value is None))


def _changes(context: Context, dataset: Obj) -> bool:
    """Whether a data set is changed after it was made, so that it may give other samples at another time."""
    if any(settle(s.target) is dataset and not _in_own(s.context, dataset) for s in context.trace.stores):
        return True
    return dataset.cls is not None and any(
        e.receiver is not None and settle(e.receiver) is dataset and not _in_own(e.context, dataset)
        for e in context.trace.events
        if e.name.rpartition(".")[2] not in _READS
    )


_READS = ("__init__", "__len__", "__getitem__", "__iter__", "__getitems__")


def _in_own(frame: Frame, dataset: Obj) -> bool:
    """Whether a place is in a method of the data set's own class."""
    if dataset.cls is None:
        return False
    owner = dataset.cls.qualname
    return any(getattr(f.value, "qualname", "").startswith(owner + ".") for f in frame.frames() if f.kind == "call")


def alike(one: Obj, other: Obj) -> bool:
    """Whether two data sets of torchvision were made of the same files and the same split."""
    if one.name != other.name or not one.name.startswith("torchvision.datasets.") or one.name in _DRAWN:
        return False
    if one.cls is not None or other.cls is not None or one.open_args or other.open_args:
        return False
    if _where(one) is None or _where(one) != _where(other):
        return False
    return one.name.rpartition(".")[2] in _WHOLE or _split(one) == _split(other) != _UNKNOWN


_UNKNOWN = object()
_TRAIN = {"MNIST", "FashionMNIST", "KMNIST", "CIFAR10", "CIFAR100", "USPS"}
_SPLIT = {
    "SVHN": "train", "ImageNet": "train", "Food101": "train", "Flowers102": "train", "GTSRB": "train", "StanfordCars": "train",
    "PCAM": "train", "Country211": "train", "Imagenette": "train", "FER2013": "train",
}  # fmt: skip
"""The default of the argument ``split``, the second one."""
_WHOLE = {"ImageFolder"}
"""Data sets that are one folder, all of it."""


def _where(dataset: Obj) -> object:
    """Where the files lie: plain, or the value that says so; None where it was not given."""
    root = dataset.argument(0, "root")
    if root is None:
        return None
    known = plain(root)
    return known if isinstance(known, str) else id(settle(root))


def _split(dataset: Obj) -> object:
    """Which split a data set reads."""
    name = dataset.name.rpartition(".")[2]
    if name in _TRAIN:
        return plain(dataset.argument(1, "train"), _UNKNOWN) if dataset.argument(1, "train") is not None else True
    if name in _SPLIT:
        return (
            plain(dataset.argument(1, "split"), _UNKNOWN) if dataset.argument(1, "split") is not None else _SPLIT[name]
        )
    return _UNKNOWN


def judged(context: Context, frame: Frame) -> bool:
    """Whether a loop compares answers with targets or computes a loss: it measures something."""
    measured = graph(context).made("==", "eq")
    if any(o.context is not None and o.context.within(frame) for o in measured):
        return True
    return any(
        is_loss(context, e.result) and e.context.within(frame) for e in context.trace.events if e.result is not None
    )


def unread_loaders(context: Context) -> list[Obj]:
    """The loaders that nothing goes through and nothing is given."""
    used: set[int] = set()
    for event in context.trace.events:
        if event.name == "builtins.len":
            continue
        for value in (*event.args, *event.kwargs.values(), *((event.receiver,) if event.receiver is not None else ())):
            _collect(value, used)
        for frame in event.context.frames():
            if frame.kind == "loop" and frame.value is not None:
                _collect(frame.value, used)
    for store in context.trace.stores:
        _collect(store.value, used)
    return [o for o in torch_loaders(context) if id(o) not in used and not (o.context is not None and o.context.shadow)]


def unread_sets(context: Context, like: Obj) -> list[Obj]:
    """Data sets of the kind of another one that no loader is given, nor anything else but ``len``."""
    used: set[int] = set()
    made: list[Obj] = []
    for event in context.trace.events:
        if isinstance(event.result, Obj) and (event.result.name, event.result.cls) == (like.name, like.cls):
            made.append(event.result)
        if event.name in ("builtins.len", "builtins.print") or event.inlined:
            continue
        for value in (*event.args, *event.kwargs.values(), *((event.receiver,) if event.receiver is not None else ())):
            _collect(value, used)
    shadows = {id(one) for one in made if one.context is not None and one.context.shadow}
    return [one for one in made if one is not like and id(one) not in used | shadows]


def _collect(value: Value, used: set[int], limit: int = 60) -> None:
    """Note a value and what it holds as used, but not what it was made of by functions."""
    stack = [value]
    while stack and limit:
        limit -= 1
        current = stack.pop()
        for option in options_of(current):
            if id(option) in used:
                continue
            used.add(id(option))
            if not isinstance(option, Obj):
                stack.extend(parents_of(option))
            elif option.name in (
                "builtins.enumerate",
                "builtins.iter",
                "builtins.zip",
                "tqdm.tqdm",
                "itertools.islice",
                "itertools.cycle",
            ):
                stack.extend(option.args)
