"""A resumed run goes on with samples that it has not had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import Fetch, fetches_of
from preflight.monitor.window import Call, Window

_FEWEST = 4


class ResumedSamples(Relation):
    """After a model and an optimizer were loaded, training does not begin again with the batches from before the save.

    Judged where the resumed part runs in the same recording: a batch at the same place of an epoch with the same
    samples in the same order, trained on before the checkpoint was written and again after it was loaded.
    Where the save was made in the middle of the first pass over the data, the place does not matter: what was trained on
    before it must not come again.
    Batches that came after the save may come again, batches that are skipped to get back to a place are not trained on,
    and an order that is simply sequential repeats itself in every epoch.
    """

    name = "resumed-samples"
    category = "checkpoint"
    needs = frozenset({"fetch", "batch", "backward", "load_state_dict"})
    follows = (fetches_of,)
    wakes = frozenset({"save", "load_state_dict", "batch"})
    severity = "warning"
    priority = 8
    cause = "the epoch of the sampler or the random state is not restored, so that the first order comes again"
    advice = "save and restore the random states and call set_epoch with the epoch that is resumed"

    def __init__(self) -> None:
        self._seen: dict[tuple[Any, ...], int] = {}
        self._anywhere: dict[tuple[Any, ...], int] = {}  # the same, wherever in an epoch
        self._last: dict[tuple[Any, ...], Fetch] = {}  # by data set: the last batch before the resume
        self._saved = -1
        self._loaded = False
        self._model = False

    def see(self, window: Window) -> Iterator[Example]:
        events: list[tuple[int, Call | Fetch]] = [
            (call.q, call) for name in ("save", "load_state_dict") for call in window.named(name)
        ]
        events += [(fetch.batch.q, fetch) for fetch in fetches_of(window)]
        for number, event in sorted(events, key=lambda one: one[0]):
            if isinstance(event, Call):
                self._file(number, event)
            elif event.trained:
                yield from self._batch(number, event)

    def _file(self, number: int, call: Call) -> None:
        if call.name == "save":
            if not self._loaded:
                self._saved = number
        elif call.object.startswith("optimizer"):
            self._loaded = self._loaded or (self._model and self._saved >= 0)
        else:
            self._model = True

    def _batch(self, number: int, fetch: Fetch) -> Iterator[Example]:
        batch = fetch.batch
        indices = batch.indices
        if not indices or len(indices) < _FEWEST or fetch.order in ("", "sequential", "distributed", "drawn"):
            return
        if indices == sorted(indices) or (fetch.batches or 0) < 2:
            return
        key = (fetch.facts.get("length"), fetch.facts.get("kind"), batch.fetch, tuple(indices))
        before = self._seen.setdefault(key, number)
        data = key[:2]
        first = self._anywhere.setdefault((*data, key[-1]), number)
        if not self._loaded:
            self._last[data] = fetch
            return
        again = before < self._saved or (first < self._saved and self._midway(data))
        yield Example(
            (),
            not again,
            {"order": fetch.order},
            variables=(batch.loader,) if again else (),
            expected="samples in an order of their own",
            seen="a batch that was trained on before the checkpoint was saved" if again else None,
            call=fetch.call,
            detail=f"After the resume {batch.loader} gives the batches of an earlier epoch again" if again else "",
        )

    def _midway(self, data: tuple[Any, ...]) -> bool:
        """Whether the first pass over some data was not yet over when the run was left."""
        last = self._last.get(data)
        if last is None or last.batch.epoch != 0 or last.batch.fetch is None:
            return False
        return last.batch.fetch + 1 < (last.batches or 0)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _resumed([5, 2, 9, 4], [1, 7, 3, 2])
        yield _resumed([0, 1, 2, 3], [0, 1, 2, 3], again=[4, 3, 2, 1])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _resumed([5, 2, 9, 4], [5, 2, 9, 4])


def _resumed(first: list[int], second: list[int], again: list[int] | None = None) -> list[Window]:
    mini = Mini()
    windows = []
    facts = {"samples": 64, "batch_size": 4, "order": "random", "length": 64, "kind": "Set"}
    for loader, indices in enumerate((first, second, again or [9, 1, 3, 2])):
        name = f"loader{loader}"
        rows: list[Any] = ["load_state_dict model", "load_state_dict optimizer0:SGD"] if loader else []
        rows += [
            (f"loader.new {name}", {"args": facts}),
            (f"fetch {name}", {"args": {"epoch": 0, "fetch": 0}}),
            ("batch", {"loader": name, "epoch": 0, "fetch": 0, "indices": indices}),
            "backward",
            "step optimizer0:SGD",
            "save",
        ]
        windows.append(mini.window(*rows))
    return windows
