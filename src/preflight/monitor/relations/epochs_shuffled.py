"""Each epoch has an order of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import Fetch, fetches_of
from preflight.monitor.window import Window

_FEWEST = 4


class EpochsShuffled(Relation):
    """A loader that shuffles does not give the samples of two epochs in the same order.

    Judged at each batch of a second or later epoch against the batch at the same place of the epoch before, where the
    loader has a sampler of PyTorch that draws an order, and a batch has at least four samples.
    The program's own samplers may repeat an order on purpose and are not judged.
    """

    name = "epochs-shuffled"
    category = "data"
    needs = frozenset({"fetch", "batch", "backward"})
    follows = (fetches_of,)
    wakes = frozenset({"batch"})
    severity = "warning"
    priority = 8
    cause = "set_epoch of the distributed sampler is not called, or the generator is seeded anew before each epoch"
    advice = "call sampler.set_epoch(epoch) before each epoch, and seed once before the first"

    def __init__(self) -> None:
        self._orders: dict[str, dict[int, dict[int, tuple[int, ...]]]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for fetch in fetches_of(window):
            batch = fetch.batch
            if "random" not in fetch.order or batch.epoch is None or batch.fetch is None:
                continue
            if batch.indices is None or len(batch.indices) < _FEWEST or (fetch.batches or 0) < 2:
                continue
            epochs = self._orders.setdefault(batch.loader, {})
            indices = tuple(batch.indices)
            epochs.setdefault(batch.epoch, {})[batch.fetch] = indices
            before = epochs.get(batch.epoch - 1, {}).get(batch.fetch)
            for old in [epoch for epoch in epochs if epoch < batch.epoch - 1]:
                del epochs[old]
            if before is not None and fetch.trained:
                yield self._judge(fetch, before == indices)

    @staticmethod
    def _judge(fetch: Fetch, same: bool) -> Example:
        distributed = "distributed" in fetch.order
        hint = " (set_epoch was not called)" if distributed else ""
        return Example(
            (),
            not same,
            {"order": fetch.order},
            variables=(fetch.batch.loader,) if same else (),
            expected="another order than in the epoch before",
            seen="the same samples at the same place" if same else None,
            call=fetch.call,
            detail=f"{fetch.batch.loader} repeats the order of the epoch before{hint}" if same else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _two_epochs([5, 2, 9, 4], [1, 7, 3, 2])
        yield _two_epochs([0, 1, 2, 3], [9, 8, 7, 6])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _two_epochs([5, 2, 9, 4], [5, 2, 9, 4])


def _two_epochs(*orders: list[int]) -> list[Window]:
    mini = Mini()
    windows = []
    facts = {"samples": 64, "batch_size": 4, "order": "distributed random"}
    for epoch, indices in enumerate(orders):
        new: list[Any] = [("loader.new loader0", {"args": facts})] if not epoch else []
        row = {"epoch": epoch, "fetch": 0, "indices": indices}
        args = {"args": {"epoch": epoch, "fetch": 0}}
        windows.append(mini.window(*new, ("fetch loader0", args), ("batch", row), "backward", "step optimizer0:SGD"))
    return windows
