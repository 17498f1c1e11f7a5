"""Each step gets another batch."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import Fetch, content, fetches_of
from preflight.monitor.window import Window

_WORKERS = 2
_PAIRS = 2


class BatchesAdvance(Relation):
    """Two batches that a loader gives one after the other for training are not the same samples.

    Judged where the loader has more samples than fit into one batch, by the indices of the samples or, where a new
    iterator was made in between, by the fingerprints of the tensors.
    A loader whose whole data is one batch, and a program that keeps one batch and uses it again, are not meant; nor is a
    sampler of the program's own that gives each batch several times in a row, to be augmented anew (data echoing), or a
    loader that was run to its end in between, and comes to the same batch when it is run through again; where its length is
    not known, one that gave several batches before its iterator was made anew.
    A stream with several workers is judged within an epoch too: where each worker reads all of it, every batch comes once
    from each, one after the other. The second such pair is reported.
    """

    name = "batches-advance"
    category = "data"
    needs = frozenset({"fetch", "batch", "backward"})
    follows = (fetches_of,)
    wakes = frozenset({"batch"})
    priority = 5
    cause = (
        "the loader's iterator is made anew at each step (next(iter(loader)) inside the loop) without shuffling,"
        " or a stream is not divided among its workers"
    )
    advice = "make the iterator once per epoch, and divide a stream by torch.utils.data.get_worker_info()"

    def __init__(self) -> None:
        self._last: dict[str, Fetch] = {}
        self._pairs: dict[str, int] = {}
        self._given: dict[str, dict[int | None, int]] = {}  # by loader and epoch: batches given so far

    def see(self, window: Window) -> Iterator[Example]:
        for fetch in fetches_of(window):
            self._count(fetch)
            if not fetch.trained:
                continue
            before = self._last.get(fetch.batch.loader)
            self._last[fetch.batch.loader] = fetch
            batches = fetch.batches
            if before is None or (batches is not None and batches <= 1):
                continue
            copied = self._copied(before, fetch)
            same = _same(before, fetch) if copied is None else copied
            if same is None:
                continue
            anew = before.batch.epoch != fetch.batch.epoch
            if same and not anew and not copied and fetch.order == "own":
                continue
            same = same and not (anew and self._ran_through(before, fetch))
            yield Example(
                (),
                not same,
                {"order": fetch.order, "new iterator": anew},
                variables=(fetch.batch.loader,) if same else (),
                expected="another batch than the one before",
                seen="the same samples again" if same else None,
                call=fetch.call,
                detail=_told(fetch, anew, bool(copied)) if same else "",
            )

    def _count(self, fetch: Fetch) -> None:
        """Count the batches of an epoch, whoever used them; of those before, only the last one that was trained on matters."""
        loader, epoch = fetch.batch.loader, fetch.batch.epoch
        before = self._last.get(loader)
        kept = {epoch, before.batch.epoch if before is not None else epoch}
        given = {one: count for one, count in self._given.get(loader, {}).items() if one in kept}
        given[epoch] = max(given.get(epoch, 0), (fetch.batch.fetch or 0) + 1)
        self._given[loader] = given

    def _ran_through(self, before: Fetch, fetch: Fetch) -> bool:
        """Whether the iterator of the batch before came to its end, as far as is known, before another was made."""
        given = self._given[before.batch.loader].get(before.batch.epoch, 0)
        return given >= (2 if fetch.batches is None else max(floor(fetch.batches), 2))

    def _copied(self, before: Fetch, fetch: Fetch) -> bool | None:
        """Whether the workers of a stream give the same batches; None where this is none, or no batch came again."""
        old, new = before.batch, fetch.batch
        if not fetch.facts.get("iterable") or (fetch.facts.get("workers") or 0) < _WORKERS or old.epoch != new.epoch:
            return None
        one, other = content(old), content(new)
        if one is None or other is None:
            return None
        self._pairs[new.loader] = self._pairs.get(new.loader, 0) + (one == other)
        return one == other and self._pairs[new.loader] >= _PAIRS

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _steps([(0, 0, [1, 2]), (0, 1, [3, 4]), (1, 0, [1, 2])])
        yield _steps([(0, 0, [1, 2]), (1, 0, [3, 4]), (2, 0, [1, 2])])
        yield _stream([7, 9, 8, 5])
        yield _steps([(0, 0, [1, 2]), (0, 1, [1, 2]), (0, 2, [3, 4])], order="own")
        yield _validated(2, 4)  # run through each time

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _steps([(0, 0, [1, 2]), (1, 0, [1, 2])])
        yield _steps([(0, 0, [1, 2]), (1, 0, [1, 2])], order="own")
        yield _steps([(0, 0, None), (1, 0, None)], samples=None)
        yield _stream([7, 7, 9, 9])
        yield _validated(2, 64)  # and left before it came to its end


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


def _told(fetch: Fetch, anew: bool, copied: bool) -> str:
    if copied:
        workers = fetch.facts.get("workers")
        return (
            f"Each of the {workers} workers of {fetch.batch.loader} reads the whole stream: batches come several times"
        )
    how = ": its iterator is made anew each time and gives the first one" if anew else ""
    return f"{fetch.batch.loader} gave the same batch as in the step before{how}"


def _steps(
    given: list[tuple[int, int, list[int] | None]], samples: int | None = 64, order: str = "sequential"
) -> list[Window]:
    mini = Mini()
    windows = []
    for number, (epoch, fetch, indices) in enumerate(given):
        args: dict[str, Any] = {"args": {"epoch": epoch, "fetch": fetch}}
        row = {"epoch": epoch, "fetch": fetch, "indices": indices, "bits": [sum(indices or [7])], "shapes": [[2, 8]]}
        new: list[Any] = [("loader.new loader0", {"args": {"samples": samples, "batch_size": 2, "order": order}})]
        rows = (("fetch loader0", args), ("batch", row), "forward model", "backward", "step optimizer0:SGD")
        windows.append(mini.window(*(new if not number else []), *rows))
    return windows


def _validated(batches: int, samples: int) -> list[Window]:
    """Steps on the last of the first so many batches of a loader of two samples each, begun anew in each step."""
    mini = Mini()
    windows = []
    new = ("loader.new loader0", {"args": {"samples": samples, "batch_size": 2, "order": "sequential"}})
    for epoch in range(2):
        rows: list[Any] = [new] if not epoch else []
        for number in range(batches):
            rows += [
                ("fetch loader0", {"args": {"epoch": epoch, "fetch": number}}),
                ("batch", {"epoch": epoch, "fetch": number, "indices": [2 * number, 2 * number + 1]}),
                "forward model",
            ]
        windows.append(mini.window(*rows, "backward", "step optimizer0:SGD"))
    return windows


def _stream(bits: list[int]) -> list[Window]:
    mini = Mini()
    windows = []
    for number, one in enumerate(bits):
        new: list[Any] = [("loader.new loader0", {"args": {"iterable": True, "workers": 2, "batch_size": 2}})]
        row = {"epoch": 0, "fetch": number, "bits": [one], "shapes": [[2, 8]]}
        fetch = ("fetch loader0", {"args": {"epoch": 0, "fetch": number}})
        rows = (fetch, ("batch", row), "forward model", "backward", "step optimizer0:SGD")
        windows.append(mini.window(*(new if not number else []), *rows))
    return windows
