"""Data loaders work in this process: what a batch holds does not hang on the number of workers."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from preflight.dryrun.virtual.loops import LOADER, Rounds


def install(rounds: Rounds) -> None:
    """Let every loader be made without workers and pinned memory, and end as loops do."""
    make, iterate = DataLoader.__init__, DataLoader.__iter__

    def batches(loader: Any) -> Any:
        return rounds.follow(iterate(loader), LOADER, _length(loader))

    def made(loader: Any, *args: Any, **kwargs: Any) -> None:
        positional = list(args)
        for at, plain in ((5, 0), (7, False)):
            if len(positional) > at:
                positional[at] = plain
        for name, plain in (("num_workers", 0), ("pin_memory", False), ("persistent_workers", False), ("timeout", 0)):
            if name in kwargs:
                kwargs[name] = plain
        for name in ("prefetch_factor", "multiprocessing_context", "worker_init_fn", "pin_memory_device"):
            kwargs.pop(name, None)
        make(loader, *positional, **kwargs)

    DataLoader.__init__ = made
    DataLoader.__iter__ = batches


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except TypeError:
        return None
