"""A sample comes once in an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import fetches_of
from preflight.monitor.window import Window


class SamplesOnce(Relation):
    """A loader does not give a sample twice in one epoch, unless its sampler draws with repetitions.

    Judged for the sequential, random and distributed samplers of PyTorch, by the indices of the samples.
    A distributed sampler fills up its last batch with samples from the beginning; as many as there are ranks may repeat.
    """

    name = "samples-once"
    category = "data"
    needs = frozenset({"fetch", "batch", "backward"})
    follows = (fetches_of,)
    wakes = frozenset({"batch"})
    severity = "warning"
    priority = 9
    cause = "the indices given to a sampler repeat themselves"
    advice = "look at the list of indices that the sampler was made with"

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, set[int], int]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for fetch in fetches_of(window):
            batch = fetch.batch
            if fetch.order in ("", "own", "drawn") or batch.indices is None or batch.epoch is None:
                continue
            epoch, seen, repeated = self._seen.get(batch.loader, (-1, set(), 0))
            if epoch != batch.epoch:
                seen, repeated = set(), 0
            again = sorted({one for one in batch.indices if one in seen or batch.indices.count(one) > 1})
            seen.update(batch.indices)
            repeated += len(again)
            self._seen[batch.loader] = batch.epoch, seen, repeated
            allowed = (fetch.facts.get("replicas") or (0, 0))[1]
            holds = repeated <= allowed
            yield Example(
                (),
                holds,
                {"order": fetch.order, "trained": fetch.trained},
                variables=() if holds else (batch.loader,),
                expected="samples that have not come in this epoch",
                seen=None if holds else f"sample {again[0] if again else '?'} a second time",
                call=fetch.call,
                detail="" if holds else f"{batch.loader} gives samples a second time within an epoch",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _batches("random", [3, 1], [2, 0])
        yield _batches("drawn", [3, 1], [3, 0]) + _batches("random", [3, 1])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _batches("random", [3, 1], [3, 0])


def _batches(order: str, *batches: list[int]) -> list[Window]:
    mini = Mini()
    windows = []
    for number, indices in enumerate(batches):
        new: list[Any] = [("loader.new loader0", {"args": {"order": order}})] if not number else []
        rows = (
            ("fetch loader0", {"args": {"epoch": 0, "fetch": number}}),
            ("batch", {"fetch": number, "indices": indices}),
        )
        windows.append(mini.window(*new, *rows, "backward"))
    return windows
