"""Data loaders work in this process: what a batch holds does not hang on the number of workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from preflight.dryrun.virtual.loops import LOADER, Rounds
from preflight.dryrun.virtual.progress import Stop

_MOST_EMPTY = 100
"""A script that waits for its steps goes through an empty loader for ever."""


class NoData(Stop):
    """Loaders gave no batch, again and again.

    Args:
        line: The person's line that asked for one.
    """

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.line = line


def install(rounds: Rounds) -> None:
    """Let every loader be made without workers and pinned memory, and end as loops do."""
    make, iterate = DataLoader.__init__, DataLoader.__iter__
    empty = 0

    def given(batches: Any) -> Iterator[Any]:
        nonlocal empty
        gave = False
        for batch in batches:
            gave, empty = True, 0
            yield batch
        if not gave:
            empty += 1
            if empty >= _MOST_EMPTY and rounds.gpu.progress.step == 0:
                raise NoData(rounds.gpu.progress.line())

    def batches(loader: Any) -> Any:
        return rounds.follow(given(iterate(loader)), LOADER, _length(loader))

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
