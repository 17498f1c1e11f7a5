"""Loaders that are made anew for each epoch give orders of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import Fetch, content, fetches_of
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import ORDER, Call, Window

_FEWEST = 4
_ALIKE = 1
"""Loaders before that gave what the one before them gave."""

Content = tuple[Any, ...]


class _Made:
    """What the loaders of one place give: this one, and the one before it."""

    def __init__(self) -> None:
        self.loader = ""
        self.before: dict[int, Content] = {}
        self.now: dict[int, Content] = {}
        self.stepped: set[int] = set()  # optimizers that have stepped since this loader gave its first batch
        self.stepped_before: set[int] = set()
        self.same = True  # whether all that was compared of this one is as it was
        self.compared = 0
        self.alike = 0  # how many loaders in a row were wholly as the one before

    def begin(self, loader: str) -> None:
        """Another loader gives its first batch."""
        self.alike = self.alike + 1 if self.compared and self.same else 0
        self.loader, self.before, self.now = loader, self.now, {}
        self.stepped_before, self.stepped = self.stepped, set()
        self.same, self.compared = True, 0


class NewLoadersShuffled(Relation):
    """A loader that shuffles and is made anew for each epoch does not give the order of the one before it.

    Whoever seeds in the loop over epochs, and makes the loader there, gets the same batches in the same order in each epoch.
    `epochs-shuffled` speaks of one loader that is gone through several times.
    Judged are loaders of one data set that are made at one place of the program, with a sampler of PyTorch that draws an
    order, at batches in the third and later ones: by the indices of their samples and by the fingerprints of what was given.
    The same optimizer must have stepped with the one before. A new optimizer, or weights that are loaded, begin another
    training, which may repeat the order of the last one on purpose.
    """

    name = "new-loaders-shuffled"
    category = "data"
    needs = frozenset({"fetch", "batch", "backward", "step", "optimizer.new", "load_state_dict"})
    follows = (fetches_of,)
    wakes = frozenset({"batch", "step", "optimizer.new", "load_state_dict", "loader.new"})
    repeats = 1
    looks = frozenset({"step", "optimizer.new", "load_state_dict", "loader.new"})
    reads = frozenset({"batch"})
    severity = "warning"
    priority = 8
    cause = "the generator is seeded with the same number before each epoch, for which a loader is made anew"
    advice = "seed once before the first epoch, or make one loader for all of them"

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], _Made] = {}
        self._places: dict[str, str | None] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("loader.new"):
            self._places[call.object] = call.place
        begun = [*window.named("optimizer.new"), *window.named("load_state_dict")]
        rows: list[tuple[int, Call | Fetch]] = [(call.q, call) for call in (*begun, *window.named("step"))]
        rows += [(fetch.batch.q, fetch) for fetch in fetches_of(window)]
        for _, row in sorted(rows, key=ORDER):
            if isinstance(row, Fetch):
                yield from self._fetched(row)
            elif row.name == "step":
                for made in self._made.values():
                    made.stepped.add(optimizer_number(row))
            else:
                self._made.clear()

    def _fetched(self, fetch: Fetch) -> Iterator[Example]:
        batch, facts = fetch.batch, fetch.facts
        given = content(batch)
        if "random" not in fetch.order or batch.epoch != 0 or batch.fetch is None or given is None or not fetch.trained:
            return
        if batch.indices is None or len(batch.indices) < _FEWEST or (fetch.batches or 0) < 2:
            return
        place = self._places.get(batch.loader)
        key = (place, *(facts.get(word) for word in ("dataset", "samples", "batch_size", "order")))
        if place is None or facts.get("dataset") is None:
            return
        made = self._made.setdefault(key, _Made())
        if made.loader != batch.loader:
            made.begin(batch.loader)
        made.now[batch.fetch] = (tuple(batch.indices), given)
        before = made.before.get(batch.fetch)
        if before is None:
            return
        same = before == made.now[batch.fetch]
        made.same, made.compared = made.same and same, made.compared + 1
        wrong = made.same and made.alike >= _ALIKE and bool(made.stepped & made.stepped_before)
        yield Example(
            (),
            not wrong,
            {},
            variables=(batch.loader,) if wrong else (),
            expected="another order than that of the loader before",
            seen="the same samples at the same place, and those of the loader before it" if wrong else None,
            call=fetch.call,
            detail=f"{batch.loader}, which was made anew, repeats the order of the loader before it" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([[5, 2, 9, 4], [1, 7, 3, 2], [8, 6, 0, 1]])
        yield _run([[5, 2, 9, 4], [1, 7, 3, 2]] * 3, anew=True)
        yield _run([[5, 2, 9, 4], [5, 2, 9, 4], [8, 6, 0, 1]])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([[5, 2, 9, 4]] * 4)


def _run(orders: list[list[int]], anew: bool = False) -> list[Window]:
    """Epochs of two batches, each with a loader of its own; ``anew`` where every second one has an optimizer of its own, too."""
    mini = Mini()
    facts = {"samples": 8, "batch_size": 4, "order": "random", "dataset": 0}
    windows = []
    for epoch, indices in enumerate(orders):
        loader = f"loader{epoch}"
        for fetch in (0, 1):
            new = [(f"loader.new {loader}", {"args": facts})] if not fetch else []
            row = {
                "loader": loader,
                "fetch": fetch,
                "indices": [one + 16 * fetch for one in indices],
                "bits": [sum(one << (8 * place) for place, one in enumerate(indices)) + fetch],
                "shapes": [[4, 8]],
            }
            made = ["optimizer.new optimizer0:SGD"] if anew and not fetch and epoch % 2 == 0 else []
            called = (f"fetch {loader}", {"args": {"epoch": 0, "fetch": fetch}})
            windows.append(mini.window(*new, called, ("batch", row), *made, "backward", "step optimizer0:SGD"))
    return windows
