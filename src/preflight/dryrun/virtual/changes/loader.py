"""Another batch size of the data loaders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import BatchSampler, DataLoader

if TYPE_CHECKING:
    from preflight.dryrun.virtual.changes import Change, Run

ROUNDS = 8
"""A loader whose data is too little for so many batches goes over it again."""


class Again(BatchSampler):
    """Batches of indices that begin anew where the data ends, so that each is whole.

    Args:
        sampler: Gives the indices of one pass.
        batch_size: Indices of a batch.
    """

    def __init__(self, sampler: Any, batch_size: int) -> None:
        super().__init__(sampler, batch_size, True)

    def __iter__(self) -> Iterator[list[Any]]:
        """Yield the batches."""
        batch: list[Any] = []
        made = 0
        while made < ROUNDS:
            before = len(batch), made
            for index in self.sampler:
                batch.append(index)
                if len(batch) == self.batch_size:
                    yield batch
                    batch, made = [], made + 1
            if (len(batch), made) == before:
                return  # the sampler gives nothing any more

    def __len__(self) -> int:
        return ROUNDS


def install(change: Change, run: Run) -> None:
    """Give the loaders whose batch size is ``before`` that of ``value``; none is changed where ``value`` is None.

    Either way a loader of ``whole`` rows has data enough for whole batches.
    """
    before, value = change.options.get("before"), change.options.get("value")
    whole = value or change.options.get("whole")
    make = DataLoader.__init__

    def made(loader: Any, dataset: Any, batch_size: Any = 1, *args: Any, **kwargs: Any) -> None:
        batches = kwargs.get("batch_sampler") or (args[2] if len(args) > 2 else None)
        if value is not None and batches is None and batch_size == before:
            batch_size = value
            change.did(f"loaders with a batch size of {before}")
        elif value is not None and batches is not None and not isinstance(batches, Again):
            if getattr(batches, "batch_size", None) != before:
                make(loader, dataset, batch_size, *args, **kwargs)
                return
            batches.batch_size = value
            change.did(f"batch samplers with a batch size of {before}")
        make(loader, dataset, batch_size, *args, **kwargs)
        _enough(loader, whole, change)

    DataLoader.__init__ = made


def _enough(loader: Any, batch_size: int | None, change: Change) -> None:
    """Let a loader begin anew if its data is too little for a few whole batches."""
    batches = getattr(loader, "batch_sampler", None)
    if batches is None or isinstance(batches, Again) or getattr(batches, "batch_size", None) != batch_size:
        return
    try:
        rows = len(batches.sampler)
    except (TypeError, AttributeError):
        return
    if batch_size is not None and 0 < rows < ROUNDS * batch_size:
        object.__setattr__(loader, "batch_sampler", Again(batches.sampler, batch_size))
        change.did(f"repeated data of {rows} rows")
