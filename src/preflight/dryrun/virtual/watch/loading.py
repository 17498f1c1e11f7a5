"""Watches data loaders: how each was made, in which order it gives its samples, and whether it feeds the training."""

from __future__ import annotations

from typing import Any

from torch.utils import data
from torch.utils.data import DataLoader

from preflight.dryrun.virtual.watch.observations import Observations

_NAMES = "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory drop_last timeout".split()


def install(seen: Observations) -> Loading:
    """Watch from now on; to be called after the loaders were taught to work in this process."""
    loading = Loading(seen)
    make, iterate = DataLoader.__init__, DataLoader.__iter__

    def made(loader: Any, *args: Any, **kwargs: Any) -> None:
        asked = dict(zip(_NAMES, args, strict=False)) | kwargs
        line = seen.progress.line()
        make(loader, *args, **kwargs)
        loading.made(loader, asked, line)

    def batches(loader: Any) -> Any:
        return loading.follow(loader, iterate(loader))

    DataLoader.__init__ = made
    DataLoader.__iter__ = batches
    return loading


class Loading:
    """The loaders of the run, as plain values.

    Attributes:
        rows: One entry for each loader, in the order they were made.
    """

    def __init__(self, seen: Observations) -> None:
        self.seen = seen
        self.rows: list[dict[str, Any]] = []
        self._of: dict[int, int] = {}

    def made(self, loader: Any, asked: dict[str, Any], line: str) -> None:
        """A loader was made."""
        workers, sampler = asked.get("num_workers", 0), loader.sampler
        batched = loader.batch_sampler if loader.batch_size is None else None
        self._of[id(loader)] = len(self.rows)
        self.rows.append(
            {
                "line": line, "batch_size": loader.batch_size, "workers": int(workers or 0),
                "pinned": bool(asked.get("pin_memory")), "drop_last": bool(loader.drop_last),
                "sampler": type(batched or sampler).__name__, "order": _order(loader, batched),
                "dataset": type(loader.dataset).__name__, "samples": _length(loader.dataset), "batches": _length(loader),
                "persistent": bool(asked.get("persistent_workers")), "trains": False, "rounds": 0,
            }
        )  # fmt: skip

    def follow(self, loader: Any, items: Any) -> Any:
        """Yield the batches; a loader trains when a backward pass follows one of its batches before the next."""
        at = self._of.get(id(loader))
        if at is None:
            yield from items
            return
        row = self.rows[at]
        row["rounds"] += 1
        backwards = self.seen.progress.backwards
        for item in items:
            yield item
            if self.seen.progress.backwards > backwards:
                row["trains"] = True
                backwards = self.seen.progress.backwards


def _order(loader: Any, batched: Any) -> str:
    """Return ``random``, ``stored``, or ``other`` where a class of the script's own decides."""
    if isinstance(loader.dataset, data.IterableDataset):
        return "other"
    sampler = loader.sampler
    if batched is not None:
        sampler = getattr(batched, "sampler", None)
    if isinstance(sampler, (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)):
        return "random"
    if isinstance(sampler, data.DistributedSampler):
        return "random" if sampler.shuffle else "stored"
    return "stored" if type(sampler) is data.SequentialSampler else "other"


def _length(thing: Any) -> int | None:
    try:
        return len(thing)
    except (TypeError, NotImplementedError):
        return None
