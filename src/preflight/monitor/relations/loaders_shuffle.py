"""Loaders that shuffled their samples still do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.scope import parts_of
from preflight.monitor.window import Window

_EARLY = 8


class LoadersShuffle(Relation):
    """A loader whose sampler drew at random in the runs this was learnt from is not given its samples in order.

    Learnt of each loader, by the order in which they are made, from its sampler: nothing is learnt of loaders that go through
    their samples in order, because that of a training may be drawn before, and what is evaluated may be drawn.
    """

    name = "loaders-shuffle"
    fields = ("loader",)
    needs = frozenset({"loader.new", "batch"})
    wakes = frozenset({"loader.new", "batch"})
    severity = "warning"
    priority = 45
    asked = ("ranks", "what_is_trained")
    learns = True
    shared = False
    cause = "shuffle=True or the sampler is missing where the loader is made"
    advice = "look at how the loader is made, and at what it is given for its order"

    def __init__(self) -> None:
        self._orders: dict[str, str] = {}
        self._times: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("loader.new"):
            order = (call.args or {}).get("order")
            if order in ("random", "sequential"):
                self._orders[call.object] = order
        for name in dict.fromkeys(batch.loader for batch in window.batches if batch.loader in self._orders):
            times = self._times[name] = self._times.get(name, 0) + 1
            if times <= _EARLY:
                ranks = "one" if window.run.world == 1 else "several"
                context = {"ranks": ranks, "what_is_trained": parts_of(window)}
                yield Example((name,), True, context, (name,), value=self._orders[name])

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return subject.get("value") != "random"

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"{subject.get('loader')} gives its samples in {subject.get('value')} order"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("random")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run("sequential")


def _run(order: str) -> list[Window]:
    mini = Mini({"model.weight": {}})
    made = ("loader.new loader0", {"args": {"order": order}})
    batches = [("batch", {"loader": "loader0", "bits": [number]}) for number in range(_EARLY)]
    return [mini.window(*([made] if not number else []), batch) for number, batch in enumerate(batches)]
