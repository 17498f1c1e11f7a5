"""Loaders that shuffled their samples still do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.scope import processes_of
from preflight.monitor.views.fetches import fetches_of
from preflight.monitor.window import Window

_EARLY = 8


class LoadersShuffle(Relation):
    """A loader that is trained from, and whose sampler drew at random in the runs this was learnt from, is not given its samples in order.

    Learnt of each such loader from its sampler. They are told apart by the order in which the training first takes a batch of
    them: loaders that are evaluated from come earlier or later, or more often, as the settings are. Nothing is learnt of
    loaders that go through their samples in order, because that of a training may be drawn before.
    """

    name = "loaders-shuffle"
    fields = ("which",)
    needs = frozenset({"loader.new", "batch", "fetch", "forward", "backward"})
    follows = (fetches_of,)
    wakes = frozenset({"batch"})
    severity = "warning"
    priority = 45
    asked = ("processes",)
    learns = True
    cause = "shuffle=True or the sampler is missing where the loader is made"
    advice = "look at how the loader is made, and at what it is given for its order"

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._times: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        orders = {fetch.batch.loader: fetch.order for fetch in fetches_of(window) if fetch.trained}
        for name, order in orders.items():
            which = self._places.setdefault(name, len(self._places))
            times = self._times[name] = self._times.get(name, 0) + 1
            if times <= _EARLY and order in ("random", "sequential"):
                context = {"processes": processes_of(window)}
                yield Example((which,), True, context, (name,), value=order)

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return subject.get("value") != "random"

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        which = subject.get("which")
        number = f" number {which + 1}" if which else ""
        return f"The loader{number} of the training gives its samples in {subject.get('value')} order"

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
    return [
        mini.window(*([] if number else [made]), batch, "forward model", "backward")
        for number, batch in enumerate(batches)
    ]
