"""Each step gets another batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.fetches import Fetch, content, fetches_of
from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class BatchesAdvance(Relation):
    """Two batches that a loader gives one after the other for training are not the same samples.

    Judged where the loader has more samples than fit into one batch, by the indices of the samples or, where a new
    iterator was made in between, by the fingerprints of the tensors.
    A loader whose whole data is one batch, and a program that keeps one batch and uses it again, are not meant.
    """

    name = "batches-advance"
    needs = frozenset({"fetch", "batch", "backward"})
    follows = (fetches_of,)
    wakes = frozenset({"batch"})
    priority = 5
    cause = "the loader's iterator is made anew at each step (next(iter(loader)) inside the loop) without shuffling"
    advice = "make the iterator once per epoch, or loop over the loader itself"

    def __init__(self) -> None:
        self._last: dict[str, Fetch] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for fetch in fetches_of(window):
            if not fetch.trained:
                continue
            before = self._last.get(fetch.batch.loader)
            self._last[fetch.batch.loader] = fetch
            batches = fetch.batches
            if before is None or (batches is not None and batches <= 1):
                continue
            same = _same(before, fetch)
            if same is None:
                continue
            anew = before.batch.epoch != fetch.batch.epoch
            yield Example(
                (),
                not same,
                {"order": fetch.order, "new iterator": anew},
                variables=(fetch.batch.loader,) if same else (),
                expected="another batch than the one before",
                seen="the same samples again" if same else None,
                call=fetch.call,
                detail=_told(fetch, anew) if same else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _steps([(0, 0, [1, 2]), (0, 1, [3, 4]), (1, 0, [1, 2])])
        yield _steps([(0, 0, [1, 2]), (1, 0, [3, 4]), (2, 0, [1, 2])])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _steps([(0, 0, [1, 2]), (1, 0, [1, 2])])
        yield _steps([(0, 0, None), (1, 0, None)], samples=None)


def _same(before: Fetch, fetch: Fetch) -> bool | None:
    """Whether two batches are the same samples; None where that cannot be said."""
    old, new = before.batch, fetch.batch
    if old.indices and new.indices:
        if len(new.indices) < 2:
            return None
        return old.indices == new.indices and old.size == new.size
    one, other = content(old), content(new)
    if one is None or other is None or old.epoch == new.epoch:
        return None
    return one == other


def _told(fetch: Fetch, anew: bool) -> str:
    how = ": its iterator is made anew each time and gives the first one" if anew else ""
    return f"{fetch.batch.loader} gave the same batch as in the step before{how}"


def _steps(given: list[tuple[int, int, list[int] | None]], samples: int | None = 64) -> list[Window]:
    mini = Mini()
    windows = []
    for number, (epoch, fetch, indices) in enumerate(given):
        args: dict[str, Any] = {"args": {"epoch": epoch, "fetch": fetch}}
        row = {"epoch": epoch, "fetch": fetch, "indices": indices, "bits": [sum(indices or [7])], "shapes": [[2, 8]]}
        new: list[Any] = [
            ("loader.new loader0", {"args": {"samples": samples, "batch_size": 2, "order": "sequential"}})
        ]
        rows = (("fetch loader0", args), ("batch", row), "forward model", "backward", "step optimizer0:SGD")
        windows.append(mini.window(*(new if not number else []), *rows))
    return windows
