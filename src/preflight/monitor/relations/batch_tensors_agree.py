"""The tensors of a batch hold as many samples as each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import fetches_of, numel
from preflight.monitor.window import Window


class BatchTensorsAgree(Relation):
    """No tensor of a batch holds a single sample while the others hold all of them.

    A collate function or processor that returns the first item only gives a tensor whose first size is 1, and it is
    then broadcast against the others without a word.
    Judged where the loader has a batch size above one, some tensor has that many rows, and the other has one row of
    whole numbers, as tokens have, which are others than in the batch before: positions are shared on purpose.
    """

    name = "batch-tensors-agree"
    midway = True
    category = "data"
    needs = frozenset({"fetch", "batch", "backward"})
    follows = (fetches_of,)
    wakes = frozenset({"batch"})
    severity = "warning"
    priority = 9
    cause = "the collate function or the processor keeps one of the samples only"
    advice = "look at the shapes of what the collate function returns"

    def __init__(self) -> None:
        self._last: dict[str, list[int | None]] = {}  # by loader: the fingerprints of its last batch

    def see(self, window: Window) -> Iterator[Example]:
        for fetch in fetches_of(window):
            last = self._last.get(fetch.batch.loader)
            self._last[fetch.batch.loader] = fetch.batch.bits
            if last is None or len(last) != len(fetch.batch.shapes) or len(fetch.batch.bits) != len(last):
                continue
            size = fetch.facts.get("batch_size")
            batch = fetch.batch
            if not fetch.trained or not size or size < 2 or len(batch.shapes) < 2:
                continue
            rows = [shape[0] if shape else 0 for shape in batch.shapes]
            if size not in rows:
                continue
            alone = [
                position
                for position, (shape, dtype) in enumerate(zip(batch.shapes, batch.dtypes, strict=True))
                if len(shape) > 1 and shape[0] == 1 and numel(shape) > 1 and dtype in ("int64", "int32")
                if None not in (before := last[position], now := fetch.batch.bits[position]) and before != now
            ]
            yield Example(
                (),
                not alone,
                {"order": fetch.order},
                variables=(batch.loader,) if alone else (),
                expected=f"{size} samples in each tensor",
                seen=f"shapes {', '.join(map(str, batch.shapes))}" if alone else None,
                call=fetch.call,
                detail=f"A tensor in the batches of {batch.loader} holds one sample, the others {size}"
                if alone
                else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _batches([[4, 3], [4, 5]], (1, 2))
        yield _batches([[4, 3], [1, 5]], (1, 1))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _batches([[4, 3], [1, 5]], (1, 2))


def _batches(shapes: list[list[int]], bits: tuple[int, ...]) -> list[Window]:
    """Batches of two tensors, of which the second has these fingerprints."""
    mini = Mini()
    windows = []
    for number, one in enumerate(bits):
        new: list[Any] = [("loader.new loader0", {"args": {"batch_size": 4, "order": "random"}})] if not number else []
        held = {"fetch": number, "shapes": shapes, "dtypes": ["float32", "int64"], "bits": [10 + number, one]}
        fetch = ("fetch loader0", {"args": {"epoch": 0, "fetch": number}})
        windows.append(mini.window(*new, fetch, ("batch", held), "backward"))
    return windows
