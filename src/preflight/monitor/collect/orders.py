"""In which order a loader gives its samples, as far as its samplers say."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import random
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any

from .plain import Outside

_DEEPEST = 4
_MOST_SAMPLES = 200_000  # of a part that is larger, nothing is told
_KEPT = 512  # samples of all the data that are told at most, about
_SPREAD, _MASK = 2654435761, 0xFFFFFFFF  # Knuth's multiplicative hash


class Numbers:
    """Numbers for objects in the order in which they are met; none is given twice, and nothing is kept alive."""

    def __init__(self) -> None:
        self._next = itertools.count()
        self._known: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def of(self, value: Any) -> int | None:
        """The number of an object; None for one that cannot be held weakly or compared, such as a list or a tensor."""
        try:
            known = self._known.get(value)
            if known is None:
                known = self._known[value] = next(self._next)
        except (TypeError, ValueError, RuntimeError):
            return None
        return known


def facts(loader: Any, datasets: Numbers) -> dict[str, Any]:
    """What is known of a loader before it gives anything; datasets are numbered."""
    sampler = _sampler(loader)
    dataset = getattr(loader, "dataset", None)
    return {
        "batch_size": getattr(loader, "batch_size", None),
        "workers": getattr(loader, "num_workers", None),
        "sampler": type(sampler).__name__,
        "iterable": type(sampler).__name__ == "_InfiniteConstantSampler",
        "drop_last": getattr(loader, "drop_last", None),
        "length": length_of(dataset),
        "order": _order(loader, sampler),
        "samples": length_of(sampler),
        "replicas": _replicas(sampler),
        **_reach(sampler, dataset),
        "dataset": datasets.of(dataset),
        "kind": type(dataset).__name__,
        "batches": type(getattr(loader, "batch_sampler", None)).__name__,
        "collate": _called(getattr(loader, "collate_fn", None)),
        "seats": _called(getattr(loader, "worker_init_fn", None)),
        **_share(dataset, sampler, datasets),
    }


def _sampler(loader: Any) -> Any:
    """What gives a loader its indices.

    A loader that is made with a sampler of batches, as every one that a library prepares, has a sequential sampler
    beside it, which nobody asks.
    """
    asked = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    return getattr(loader, "sampler", None) if asked is None else asked


def _called(function: Any) -> str | None:
    """What a function is called, or the class of what is called in its place; None where there is none."""
    if function is None:
        return None
    name = getattr(function, "__name__", None) if isinstance(function, types.FunctionType) else None
    return name if isinstance(name, str) else type(function).__name__


def _reach(sampler: Any, dataset: Any) -> dict[str, int]:
    """From how many samples a sampler draws, where it has a weight for each or was made for a data set."""
    data = sys.modules["torch.utils.data"]
    if isinstance(sampler, data.WeightedRandomSampler):
        reach = length_of(sampler.weights)
    else:
        source = getattr(sampler, "data_source", getattr(sampler, "dataset", None))
        reach = length_of(source) if isinstance(source, data.Dataset) and source is not dataset else None
    return {} if reach is None else {"reach": reach}


def _share(dataset: Any, sampler: Any, datasets: Numbers) -> dict[str, Any]:
    """Of which data a loader has a part, and a sample of that part: the same samples of the same data for every loader."""
    data = sys.modules["torch.utils.data"]
    drawn = type(sampler) is data.SubsetRandomSampler
    own = _numbers(sampler.indices) if drawn else None
    told = own is not None or not drawn  # otherwise which part it has is not known
    for _ in range(_DEEPEST):
        if type(dataset) is not data.Subset:
            break
        inner = _numbers(dataset.indices)
        if inner is None:
            return {}
        own = [inner[one] for one in own] if own is not None else inner
        dataset = dataset.dataset
    length = length_of(dataset)
    if own is None or not told or not length:
        return {"base": datasets.of(dataset)}
    every = 1
    while every * _KEPT < length:
        every *= 2
    part = sorted({one for one in own if (one * _SPREAD & _MASK) >> 8 & every - 1 == 0})
    return {"base": datasets.of(dataset), "part": part, "of": length}


def _numbers(indices: Any) -> list[int] | None:
    """Indices as numbers; None where they are too many, or where reading them would wait for a device."""
    count = length_of(indices)
    if count is None or count > _MOST_SAMPLES or not _here(indices):
        return None
    found = indices.tolist() if hasattr(indices, "tolist") else list(indices)
    if not all(type(one) is int or _here(one) for one in found):
        return None
    return [int(one) for one in found]


def _here(value: Any) -> bool:
    """Whether a value can be read at once; what tells of no device of torch's is in memory."""
    return getattr(getattr(value, "device", None), "type", "cpu") == "cpu"


def _order(loader: Any, sampler: Any) -> str:
    """The order: sequential, random, drawn (with repetitions), distributed, distributed random; or the program's own."""
    data = sys.modules["torch.utils.data"]
    batches = getattr(loader, "batch_sampler", None)
    if batches is not None and type(batches) is not data.BatchSampler:
        return "own"
    if type(sampler) is data.SequentialSampler:
        return "sequential"
    if isinstance(sampler, data.WeightedRandomSampler):
        return "drawn"
    if isinstance(sampler, data.RandomSampler):
        return "drawn" if sampler.replacement else "random"
    if isinstance(sampler, data.SubsetRandomSampler):
        return "random"
    distributed = sys.modules.get("torch.utils.data.distributed")
    if distributed is not None and type(sampler) is distributed.DistributedSampler:
        return "distributed random" if sampler.shuffle else "distributed"
    return "own"


def _replicas(sampler: Any) -> list[int] | None:
    """The rank of a distributed sampler, and how many there are."""
    replicas, rank = getattr(sampler, "num_replicas", None), getattr(sampler, "rank", None)
    return [rank, replicas] if isinstance(rank, int) and isinstance(replicas, int) else None


def length_of(value: Any) -> int | None:
    """How long a data set, a sampler or a list says it is; None where it does not say.

    What the program wrote to answer may draw or take its time: its draws are taken back, a stream is not asked, and who
    asks does so once for each loader.
    """
    measure = getattr(type(value), "__len__", None)
    if measure is None or isinstance(value, sys.modules["torch.utils.data"].IterableDataset):
        return None
    try:
        if not isinstance(measure, types.FunctionType):
            return len(value)
        with _undrawn():
            return len(value)
    except Exception:
        return None


@contextlib.contextmanager
def _undrawn() -> Iterator[None]:
    """Put the generators of the processor that everyone shares back to where they were, if they are drawn from."""
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy.random")
    # As a dictionary: of another generator than its oldest one numpy gives no other, and warns of that.
    own, others = random.getstate(), None if numpy is None else numpy.get_state(legacy=False)
    with Outside(torch):
        drawn = torch.get_rng_state()
    try:
        yield
    finally:
        if random.getstate() != own:
            random.setstate(own)
        if numpy is not None and pickle.dumps(numpy.get_state(legacy=False)) != pickle.dumps(others):
            numpy.set_state(others)
        with Outside(torch):
            if not torch.equal(torch.get_rng_state(), drawn):
                torch.set_rng_state(drawn)
