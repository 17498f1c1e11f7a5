"""The tensors of a batch hold as many samples as each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.fetches import fetches_of, numel
from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class BatchTensorsAgree(Relation):
    """No tensor of a batch holds a single sample while the others hold all of them.

    A collate function or processor that returns the first item only gives a tensor whose first size is 1, and it is
    then broadcast against the others without a word.
    Judged where the loader has a batch size above one, some tensor has that many rows, and the other has one row of
    whole numbers, as tokens have; masks and positions that are shared on purpose are rarely made of them.
    """

    name = "batch-tensors-agree"
    category = "data"
    needs = frozenset({"fetch", "batch", "backward"})
    follows = (fetches_of,)
    wakes = frozenset({"batch"})
    severity = "warning"
    priority = 9
    cause = "the collate function or the processor keeps one of the samples only"
    advice = "look at the shapes of what the collate function returns"

    def see(self, window: Window) -> Iterator[Example]:
        for fetch in fetches_of(window):
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
        yield [_batch([[4, 3], [4, 5]])]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield [_batch([[4, 3], [1, 5]])]


def _batch(shapes: list[list[int]]) -> Window:
    new: Any = ("loader.new loader0", {"args": {"batch_size": 4, "order": "random"}})
    row = ("batch", {"fetch": 0, "shapes": shapes, "dtypes": ["float32", "int64"]})
    return Mini().window(new, ("fetch loader0", {"args": {"epoch": 0, "fetch": 0}}), row, "backward")
